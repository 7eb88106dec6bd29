"""Tests that a model gives a source alone what it gives it padded beside a longer one.

Wrong glue between a model and `molspec.decode` shows as a difference. Only then further calls find
its cause: what no loop can decode rightly is refused, and what merely cannot take batches is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from molspec.engine.torch.module import MODEL_ERRORS, EncoderDecoder, check_logits, encoded

#: Target tokens in these tests: enough to see a difference, few enough to cost little.
COLUMNS = 16
#: Of int8 activations, and of float32 products on tensor cores.
_INT8_EPS, _TF32_EPS = 2.0**-7, 2.0**-10
#: Multiples of the spacing of 1.0: batches of other shapes may add in another order.
_LAST_BITS = 16
_NOTHING_KEPT = "keep nothing between calls (a cache)"
ROWS = f"expected tensors [row, length, ...] (is batch_first set?); {_NOTHING_KEPT}"
POLARITY = "padding masks are True at padding, as torch's key_padding_mask; is yours inverted?"


def coarsest(modules: Iterable[nn.Module], values: Sequence[Tensor]) -> float:
    """The largest spacing of 1.0 in the types that a model computes in."""
    device = values[0].device.type
    modules = list(modules)
    tensors = [*values, *(each for m in modules for each in (*m.parameters(), *m.buffers()))]
    dtypes = {each.dtype for each in tensors if each.dtype.is_floating_point}
    if torch.is_autocast_enabled(device):
        dtypes.add(torch.get_autocast_dtype(device))
    found = [float(torch.finfo(dtype).eps) for dtype in dtypes]
    if any(".quantized." in type(part).__module__ for m in modules for part in m.modules()):
        found.append(_INT8_EPS)
    if device == "cuda" and torch.get_float32_matmul_precision() != "highest":
        found.append(_TF32_EPS)
    return max(found, default=float(torch.finfo(torch.float32).eps))


def logits_of(
    model: EncoderDecoder, target_ids: Tensor, memory: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Logits of rows of one length; by default no memory has padding."""
    target_ids = target_ids.to(model.device)
    rows = memory.expand(len(target_ids), *memory.shape[1:])
    if mask is None:
        mask = torch.zeros(rows.shape[:2], dtype=torch.bool, device=model.device)
    logits = model.decode_unpadded(target_ids, rows, mask)
    check_logits(logits, target_ids)
    return logits


def change(first: Tensor, second: Tensor) -> float:
    """Largest difference of the log-probabilities [..., vocab] of the likeliest tokens."""
    if first.numel() == 0:
        return 0.0
    top = first.argmax(dim=-1, keepdim=True)
    likeliest = [each.log_softmax(dim=-1).gather(-1, top) for each in (first, second)]
    difference = torch.sub(*likeliest).abs().nan_to_num()
    difference[likeliest[0].isnan() != likeliest[1].isnan()] = torch.inf
    return float(difference.max())


def rounding(logits: Tensor, eps: float) -> float:
    """The allowed difference of equal logits in two batches."""
    largest = float(logits.amax(dim=-1).abs().nan_to_num(posinf=0.0).max())
    return float(eps**0.5) * max(1.0, largest)


@dataclass(frozen=True)
class Trial:
    """A short and a long source, their memories alone, and targets.

    target_ids [column] are decoded with both; expected [column, vocab] are the logits with the
    long source, from a batch of more columns.
    """

    model: EncoderDecoder
    sources: tuple[Sequence[int], Sequence[int]]
    memories: tuple[Tensor, Tensor]
    target_ids: Tensor
    expected: Tensor
    eps: float

    def flaw(self) -> str | None:
        """Why the model's sources cannot share a batch, or None. Takes 2 encodes, 3 decodes.

        Raises ValueError if the model's own answers would be wrong alone too.
        """
        for name, values in (("encode", self.memories[1]), ("decode", self.expected)):
            if bool(values.isnan().all()):
                raise ValueError(f"{name} gives NaN for a source without padding: {POLARITY}")
        self._check_source_is_read()
        try:
            alone = self._alone()
        except MODEL_ERRORS as error:
            raise ValueError(f"decode fails for two rows of one source, {error}; {ROWS}") from error
        try:
            together = encoded(self.model, self.sources)
            logits = self._together(together)
        except (RuntimeError, ValueError, IndexError, AssertionError) as error:
            rows = self.target_ids[None]
            check_repeats(self.model, self.sources[1], self.memories[1], rows, self.eps)
            self._check_source_counts(alone)
            return f"the model fails for two sources of different lengths ({error})"
        short, long = self._expected(alone)
        if self._differ(short, logits[0]) or self._differ(long, logits[1][self._begin :]):
            return self._cause(together, short, long)
        self._check_source_counts(alone)
        return None

    @property
    def _begin(self) -> int:
        """Padding on the left of the long source's row, for models that take it."""
        return len(self.target_ids) // 2 if self.model.takes_offsets else 0

    def _expected(self, alone: Tensor) -> tuple[Tensor, Tensor]:
        return alone[0], self.expected[: len(self.target_ids) - self._begin]

    def _alone(self) -> Tensor:
        """Logits [2, column, vocab] with the short source; the second row begins otherwise."""
        vocab_size = self.expected.shape[-1]
        other = self.target_ids.clone()
        ids = [i for i in range(vocab_size) if i not in (self.model.pad_id, int(other[0]))]
        other[0] = ids[0] if ids else other[0]
        rows = torch.stack((self.target_ids, other))
        logits = logits_of(self.model, rows, self.memories[0])
        self._check_memory(logits, rows)
        self._check_history(logits, ids)
        return logits

    def _check_source_is_read(self) -> None:
        """Raise ValueError if a source that begins with another id has the same memory.

        That a memory is the beginning of any other is a model's own way.
        """
        short, long = self.sources
        others = [each for each in (*short, *long) if each != short[0]]
        if not others or not apart(self.memories[1][:, : len(short)], self.memories[0], 0.0):
            return
        try:
            changed = encoded(self.model, [[others[0], *short[1:]]])
        except MODEL_ERRORS as error:
            raise ValueError(f"encode fails for a second source, {error}; {ROWS}") from error
        if not apart(changed, self.memories[0], 0.0):
            raise ValueError(f"encode gives two sources of one length one memory: {_NOTHING_KEPT}")

    def _check_memory(self, logits: Tensor, rows: Tensor) -> None:
        """Raise ValueError if sources have an effect, but another memory of one shape has none."""
        memory = self.memories[0]
        if memory.dim() < 3 or not memory.is_floating_point():
            return
        changed = logits_of(self.model, rows, memory.flip(-1))
        if self._moved(logits, changed, bits=1):
            return
        own, other = (logits_of(self.model, rows[:, :1], m) for m in (memory, memory.flip(-1)))
        if self._moved(logits[0], self.expected) or self._moved(own, other, bits=1):
            raise ValueError(f"decode does not read the memory that it is given: {_NOTHING_KEPT}")

    def _check_history(self, logits: Tensor, ids: Sequence[int]) -> None:
        """Raise ValueError if a token has no effect where it must have one."""
        decoded = partial(logits_of, self.model, memory=self.memories[0])
        if not ids or self._moved(logits[0, :1], logits[1, :1], bits=1):
            return
        if self._moved(logits[0, 1:], logits[1, 1:], bits=1):
            rows = self.target_ids.repeat(min(len(ids), 8), 1)
            rows[:, 0] = torch.tensor(ids[: len(rows)], device="cpu")
            begins = decoded(rows)[:, 0]
            if not self._moved(begins[:1].expand_as(begins), begins, bits=1):
                raise ValueError(
                    "decode gives the logits of another step: those of column c do not depend on "
                    "the token in column c; expected the next token's, so do not shift target_ids"
                )
            return
        padded = self.target_ids.clone()[None]
        padded[0, 0] = self.model.pad_id
        if self._moved(logits[0, 1:], decoded(padded)[0, 1:]):
            raise ValueError(f"decode masks the target's tokens, not its padding: {POLARITY}")

    def _together(self, memory: Tensor, inverted: bool = False) -> Tensor:
        """Logits of both sources in one batch, with the padding that a decode has."""
        lengths = torch.tensor([len(each) for each in self.sources], device=memory.device)
        mask = (torch.arange(memory.shape[1], device=memory.device) >= lengths[:, None]) ^ inverted
        return self._left_padded(memory, mask, [0, self._begin])

    def _left_padded(self, memory: Tensor, mask: Tensor, begins: Sequence[int]) -> Tensor:
        if not self.model.takes_offsets:
            rows = self.target_ids.expand(len(begins), -1)
            return logits_of(self.model, rows, memory, mask)
        rows = torch.full((len(begins), len(self.target_ids)), self.model.pad_id, device="cpu")
        for row, begin in zip(rows, begins, strict=True):
            row[begin:] = self.target_ids[: len(row) - begin]
        offsets = torch.tensor(begins, device=self.model.device)
        logits = self.model.decode(rows.to(self.model.device), memory, mask, offsets)
        check_logits(logits, rows)
        return logits

    def _cause(self, together: Tensor, short: Tensor, long: Tensor) -> str:
        """Name the cause of a difference. Raises ValueError unless batches of one source help."""
        model, memories = self.model, self.memories
        rows = self.target_ids[None]
        check_repeats(model, self.sources[1], memories[1], rows, self.eps)
        if self._differ(self.expected, logits_of(model, rows, memories[1])[0]):
            raise ValueError(
                "decode's logits for a row change with other rows or later columns: expected "
                "tensors [row, length, ...] (is batch_first set?), and positions from the left"
            )
        none = torch.zeros(memories[1].shape[:2], dtype=torch.bool, device=model.device)
        if self._differ(
            long, self._left_padded(memories[1], none, [self._begin])[0][self._begin :]
        ):
            raise ValueError(
                "decode's logits change with padding on the left of target_ids: mask target_ids "
                "before position_offset, and subtract it from the positions"
            )
        self._check_source_counts(short[None])
        stacked = memories[1].new_zeros(2, *memories[1].shape[1:])
        stacked[0, : memories[0].shape[1]], stacked[1] = memories[0][0], memories[1][0]
        decoded = self._together(stacked)[0]
        found = []
        if self._differ(short, decoded):
            self._check_polarity(stacked, decoded)
            found.append("decode ignores memory_padding_mask")
        inner = together[0, : memories[0].shape[1]], memories[0][0]
        outer = together[1], memories[1][0]
        if any(apart(*both, self.eps**0.5) for both in (inner, outer)):
            self._check_encoder(together)
            found.append(f"encode ignores the padding mask, source_ids == {model.pad_id}")
        return " and ".join(found) or "a source's logits change beside a longer source"

    def _hidden(self, memory: Tensor) -> Tensor:
        """Logits [1, column, vocab] with a memory that the mask hides."""
        mask = torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)
        return logits_of(self.model, self.target_ids[None], memory, mask)

    def _check_polarity(self, stacked: Tensor, decoded: Tensor) -> None:
        """Raise ValueError if the opposite masks have an effect, and agree alone and together."""
        alone = self._hidden(self.memories[0])[0]
        together = self._together(stacked, inverted=True)[0]
        if self._differ(decoded, together) and not self._differ(alone, together):
            raise ValueError(f"decode hides the memory, and sees its padding: {POLARITY}")

    def _check_source_counts(self, alone: Tensor) -> None:
        """Raise ValueError if the decoder reads a memory only where the mask hides it."""
        if self._moved(alone[0], self.expected):
            return
        short, long = self.memories
        if self._moved(self._hidden(short), self._hidden(long)):
            raise ValueError(f"decode sees no memory, but what its mask hides: {POLARITY}")

    def _check_encoder(self, together: Tensor) -> None:
        """Raise ValueError if the encoder sees other sources or padding, but not its source."""
        short, long = self.sources
        for sources, memory in (([long], self.memories[1][0]), ([short, long], together[0])):
            first = sources[0]
            others = [each for each in (*short, *long) if each != first[0]]
            if len(first) < 2 or not others:
                continue
            changed = encoded(self.model, [[others[0], *first[1:]], *sources[1:]])[0]
            if not apart(changed[1 : len(first)], memory[1 : len(first)], self.eps):
                raise ValueError(
                    "encode sees padding or other sources, but not the source's own tokens: "
                    f"expected source_ids [batch, length] (is batch_first set?); {POLARITY}"
                )

    def _differ(self, first: Tensor, second: Tensor) -> bool:
        """Whether logits differ by more than rounding."""
        return change(first, second) > rounding(first, self.eps)

    def _moved(self, first: Tensor, second: Tensor, bits: int = _LAST_BITS) -> bool:
        """Whether any logit differs by more than a few last bits."""
        return apart(first, second, bits * self.eps)


def check_repeats(
    model: EncoderDecoder, source: Sequence[int], memory: Tensor, target_ids: Tensor, eps: float
) -> None:
    """Raise ValueError if two equal calls differ; memory is the source's from an earlier call."""
    calls = {
        "encode": (memory, encoded(model, [source])),
        "decode": (logits_of(model, target_ids, memory), logits_of(model, target_ids, memory)),
    }
    for name, (first, second) in calls.items():
        if apart(first, second, eps**0.5):
            raise ValueError(
                f"two calls of {name} with the same input differ: call .eval() on the module "
                f"first (dropout is on), and {_NOTHING_KEPT}"
            )


def apart(first: Tensor, second: Tensor, tolerance: float) -> bool:
    """Whether tensors differ by more than a share of their largest value."""
    if not first.numel():
        return False
    first, second = first.double(), second.double()
    difference = (first - second).abs()
    difference[first.isnan() != second.isnan()] = torch.inf
    largest = max(1.0, float(first.abs().nan_to_num(posinf=0.0).max()))
    return float(difference.nan_to_num().max()) > tolerance * largest
