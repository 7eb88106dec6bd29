"""Tests that a model gives a source alone what it gives it padded beside a longer one.

Wrong glue between a model and `molspec.decode` shows as a difference. Only then further calls find
its cause: what no loop can decode rightly is refused, and what merely cannot take batches is named.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from molspec.engine.torch.module import MODEL_ERRORS, EncoderDecoder, check_logits, encoded

#: Target tokens in these tests: enough to see a difference, few enough to cost little.
COLUMNS = 16
#: Of int8 activations, and of float32 products on tensor cores.
_INT8_EPS, _TF32_EPS = 2.0**-7, 2.0**-10
#: Multiples of the spacing of 1.0: batches of other shapes may add in another order.
_LAST_BITS = 16
_KEEP_NONE = "keep nothing between calls (a cache)"
ROWS = f"expected tensors [row, length, ...] (is batch_first set?); {_KEEP_NONE}"
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
        short, long = alone[0], self.expected[: len(self.target_ids) - self._begin]
        try:
            together = encoded(self.model, self.sources)
            logits = self._together(together)
        except (RuntimeError, ValueError, IndexError, AssertionError) as error:
            self._check_calls(short, long)
            return f"the model fails for two sources of different lengths ({error})"
        if self._differ(short, logits[0]) or self._differ(long, logits[1][self._begin :]):
            self._check_calls(short, long)
            return self._cause(together, short)
        self._check_mask(short)
        return None

    @property
    def _begin(self) -> int:
        """Padding on the left of the long source's row, for models that take it."""
        return len(self.target_ids) // 2 if self.model.takes_offsets else 0

    def _other_id(self, first: int, ids: Sequence[int]) -> int | None:
        return next((each for each in ids if each not in (first, self.model.pad_id)), None)

    def _check_source_is_read(self) -> None:
        """Raise ValueError if a source that begins with another id has the same memory.

        That a memory is the beginning of any other is a model's own way.
        """
        short, long = self.sources
        other = self._other_id(short[0], (*short, *long))
        if other is None or not apart(self.memories[1][:, : len(short)], self.memories[0], 0.0):
            return
        try:
            changed = encoded(self.model, [[other, *short[1:]]])
        except MODEL_ERRORS as error:
            raise ValueError(f"encode fails for a second source, {error}; {ROWS}") from error
        if not apart(changed, self.memories[0], 0.0):
            raise ValueError(f"encode gives two sources of one length one memory: {_KEEP_NONE}")

    def _alone(self) -> Tensor:
        """Logits [2, column, vocab] with the short source; the second row begins otherwise.

        Raises ValueError if the memory or the first token has no effect where it must have one.
        """
        memory, rows = self.memories[0], self.target_ids.repeat(2, 1)
        ids = [each for each in range(self.expected.shape[-1]) if each != self.model.pad_id]
        other = self._other_id(int(rows[0, 0]), ids)
        rows[1, 0] = rows[0, 0] if other is None else other
        logits = logits_of(self.model, rows, memory)
        if memory.dim() > 2 and memory.is_floating_point():
            follows = self._moved(logits, logits_of(self.model, rows, memory.flip(-1)), bits=1)
            if not follows and (self._moved(logits[0], self.expected) or self._begins_by(memory)):
                raise ValueError(f"decode does not read the memory that it is given: {_KEEP_NONE}")
        self._check_history(logits, ids)
        return logits

    def _check_history(self, logits: Tensor, ids: Sequence[int]) -> None:
        """Raise ValueError if the first token has no effect where it must have one."""
        one, two = logits
        if self._moved(one[:1], two[:1], bits=1):
            return
        if not self._moved(one[1:], two[1:], bits=1):
            padded = self.target_ids.clone()[None]
            padded[0, 0] = self.model.pad_id
            if self._moved(one[1:], logits_of(self.model, padded, self.memories[0])[0, 1:]):
                raise ValueError(f"decode masks the target's tokens, not its padding: {POLARITY}")
            return
        begins = self.target_ids.repeat(min(len(ids), 8), 1)
        begins[:, 0] = torch.tensor(ids[: len(begins)], device="cpu")
        first = logits_of(self.model, begins, self.memories[0])[:, 0]
        if not self._moved(first[:1].expand_as(first), first, bits=1):
            raise ValueError(
                "decode gives the logits of another step: those of column c do not depend on "
                "the token in column c; expected the next token's, so do not shift target_ids"
            )

    def _begins_by(self, memory: Tensor) -> bool:
        """Whether rows of one token follow the memory."""
        row = self.target_ids[None, :1]
        one, two = (logits_of(self.model, row, each) for each in (memory, memory.flip(-1)))
        return self._moved(one, two, bits=1)

    def _together(self, memory: Tensor) -> Tensor:
        """Logits of both sources in one batch, with the padding that a decode has."""
        lengths = torch.tensor([len(each) for each in self.sources], device=memory.device)
        mask = torch.arange(memory.shape[1], device=memory.device) >= lengths[:, None]
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

    def _check_calls(self, short: Tensor, long: Tensor) -> None:
        """Raise ValueError if no batch of one source is decoded rightly either."""
        memory = self.memories[1]
        check_repeats(self.model, self.sources[1], memory, self.target_ids[None], self.eps)
        none = torch.zeros(memory.shape[:2], dtype=torch.bool, device=self.model.device)
        alone = self._left_padded(memory, none, [self._begin])[0]
        if self._differ(long, alone[self._begin :]):
            raise ValueError(
                "decode's logits for a row change with other rows, with later columns or with "
                "padding on the left of target_ids: expected tensors [row, length, ...] (is "
                "batch_first set?), positions from the left, and position_offset subtracted"
            )
        self._check_mask(short)

    def _check_mask(self, short: Tensor) -> None:
        """Raise ValueError if the decoder reads a memory only where the mask hides it."""
        if self._moved(short, self.expected):
            return
        target_ids = self.target_ids[None]
        hidden = (
            torch.ones(each.shape[:2], dtype=torch.bool, device=each.device)
            for each in self.memories
        )
        one, two = (
            logits_of(self.model, target_ids, *each)
            for each in zip(self.memories, hidden, strict=True)
        )
        if self._moved(one, two):
            raise ValueError(f"decode sees no memory, but what its mask hides: {POLARITY}")

    def _cause(self, together: Tensor, short: Tensor) -> str:
        """Name the cause of a difference. Raises ValueError unless batches of one source help."""
        own = nn.utils.rnn.pad_sequence([each[0] for each in self.memories], batch_first=True)
        found = []
        if self._differ(short, self._together(own)[0]):
            self._check_padding_is_seen(own)
            found.append("decode ignores memory_padding_mask")
        lengths = (len(each) for each in self.sources)
        parts = zip(together, self.memories, lengths, strict=True)
        if any(apart(row[:n], memory[0], self.eps**0.5) for row, memory, n in parts):
            self._check_encoder(together)
            found.append(f"encode ignores the padding mask, source_ids == {self.model.pad_id}")
        return " and ".join(found) or "a source's logits change beside a longer source"

    def _check_padding_is_seen(self, own: Tensor) -> None:
        """Raise ValueError if padding of the short memory counts, but not its own part."""
        if own.dim() < 3 or not own.is_floating_point():
            return
        length = len(self.sources[0])
        changed = own.clone()
        changed[0, :length] = own[0, :length].flip(-1)
        if not self._moved(self._together(own)[0], self._together(changed)[0]):
            raise ValueError(f"decode hides the memory, and sees its padding: {POLARITY}")

    def _check_encoder(self, together: Tensor) -> None:
        """Raise ValueError if the encoder sees other sources or padding, but not its source."""
        short, long = self.sources
        for sources, memory in (([long], self.memories[1][0]), ([short, long], together[0])):
            first = sources[0]
            other = self._other_id(first[0], (*short, *long))
            if len(first) < 2 or other is None:
                continue
            changed = encoded(self.model, [[other, *first[1:]], *sources[1:]])[0]
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
                f"first (dropout is on), and {_KEEP_NONE}"
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
