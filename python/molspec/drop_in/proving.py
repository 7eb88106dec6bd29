"""Proves that the layers found in a module give its own logits."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from molspec.drop_in.stacks import TOLERANCE, Weights, difference, draw_ids, is_same
from molspec.engine.torch.module import MODEL_ERRORS, EncoderDecoder
from molspec.model import random_numbers, transformer
from molspec.model.spec import ModelSpec

#: Positions compared, beyond those whose relative positions differ: a module may see a window only.
_COMPARED = 256
#: Ids that are compared in company, from 0 on: special tokens and punctuation are there.
_MOST_IDS = 1024
#: Ids around one that is tried alone; ids in an error.
_FEW, _MOST_NAMED = 4, 5
_IS_ELSE = "it does something else too; molspec.decode takes it as it is"


def prove(
    own: EncoderDecoder, spec: ModelSpec, weights: Weights, masks: bool, pad_id: int | None
) -> None:
    """Raise ValueError unless the spec and the weights give the module's own logits.

    For a long source and a shorter one, alone and padded beside each other, and for every id in
    company. pad_id: None if it is not known; then one id may be the module's own padding.
    """
    with random_numbers.kept_random_numbers():
        twin = transformer.Transformer(spec, dropout=0.0).to(own.device).double().eval()
    twin.load_state_dict(dict(weights))
    reach = spec.relative_max_distance if spec.positions == "relative" else 0
    length = min(reach + _COMPARED, spec.max_positions)
    sources = draw_ids(spec.source_vocab_size, own.pad_id, 2, length).to(own.device)
    targets = draw_ids(spec.target_vocab_size, own.pad_id, 2, length).to(own.device)
    lengths = length, length // 2 + 1
    memories, expected = [], []
    for row, count in enumerate(lengths):
        source, target = sources[row : row + 1, :count], targets[row : row + 1]
        mask = torch.zeros_like(source, dtype=torch.bool)
        memories.append(own.encode(source))
        expected.append(own.decode_unpadded(target, memories[row], mask))
        made = _alike(twin.decode(target, twin.encode(source, mask), mask), expected[row])
        if (found := difference(made, expected[row])) > TOLERANCE:
            raise ValueError(
                f"the module's logits differ by {found:.1g} from those of the layers found in it: "
                f"{_IS_ELSE}"
            )
    ends = torch.tensor(lengths, device=own.device)[:, None]
    mask = torch.arange(length, device=own.device) >= ends
    memory = nn.utils.rnn.pad_sequence([each[0] for each in memories], True, 1.0)
    if masks:
        memory = own.encode(sources.masked_fill(mask, own.pad_id))
    together = own.decode_unpadded(targets, memory, mask)
    if (found := difference(together, torch.cat(expected))) > TOLERANCE:
        raise ValueError(
            f"a source's logits differ by {found:.1g} beside a longer source: does encode or "
            "decode ignore, or invert, the padding mask?"
        )
    _Encoder(own, twin, length).check(spec.source_vocab_size, pad_id)
    _Decoder(own, twin, length, memories[1]).check(spec.target_vocab_size, pad_id)


def _alike(logits: Tensor, expected: Tensor) -> Tensor:
    """Logits as log-probabilities if those are expected."""
    are_log_probs = float(expected.logsumexp(dim=-1).abs().max()) < TOLERANCE
    return logits.log_softmax(dim=-1) if are_log_probs else logits


@dataclass(frozen=True)
class _Side:
    """One side of a module beside that of its twin."""

    own: EncoderDecoder
    twin: transformer.Transformer
    #: Positions of a row.
    longest: int

    name = ""

    def check(self, size: int, pad_id: int | None) -> None:
        """Raise ValueError if the tokens beside an id are read otherwise than by the engine."""
        ids = [each for each in range(min(size, _MOST_IDS)) if each != pad_id]
        if self.longest == 1 or all(map(self._agrees, _in_parts(ids, self.longest))):
            return
        company = draw_ids(size, self.own.pad_id, min(_FEW, self.longest))  # usual tokens
        parts = _in_parts(ids, max(1, self.longest - len(company)))
        odd = [each for part in parts for each in self._odd(company, part)]
        padding = [each for each in odd if pad_id is None and self._is_padding(company, each)]
        rest = [each for each in ids if each not in padding]
        if len(padding) == 1 and all(map(self._agrees, _in_parts(rest, self.longest))):
            return
        named = ", ".join([str(each) for each in odd if each not in padding][:_MOST_NAMED])
        raise ValueError(
            f"the {self.name} reads tokens differently beside the ids {named or 'of others'}: "
            f"{_IS_ELSE}"
        )

    def outputs(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """What the twin and the module give for a row [1, length]."""
        raise NotImplementedError

    def skips(self, company: Tensor, padding: int) -> bool:
        """Whether an id is hidden from the ids of its company, as padding is."""
        raise NotImplementedError

    def _agrees(self, ids: Tensor) -> bool:
        with suppress(*MODEL_ERRORS):  # lengths may count what is not padding
            return is_same(*self.outputs(ids[None].to(self.own.device)))
        return False

    def _is_padding(self, company: Tensor, token_id: int) -> bool:
        with suppress(*MODEL_ERRORS):
            return self.skips(company, token_id)
        return False

    def _odd(self, company: Tensor, ids: Tensor) -> list[int]:
        """The ids in whose company others are read differently, found by halves."""
        if self._agrees(torch.cat((company[:1], ids, company[1:]))[-self.longest :]):
            return []
        if len(ids) == 1:
            return ids.tolist()
        half = len(ids) // 2
        return self._odd(company, ids[:half]) + self._odd(company, ids[half:])


class _Encoder(_Side):
    """Gives the memory."""

    name = "encoder"

    def outputs(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.twin.encode(ids, torch.zeros_like(ids, dtype=torch.bool)), self.own.encode(ids)

    def skips(self, company: Tensor, padding: int) -> bool:
        ids = company.repeat(2, 1).to(self.own.device)
        ids[0, -1] = padding  # beside a longer source
        made, _ = self.outputs(ids[:1, :-1])
        return is_same(made, self.own.encode(ids)[:1, :-1])


@dataclass(frozen=True)
class _Decoder(_Side):
    """Gives the logits over a memory [1, length, d_model]."""

    memory: Tensor

    name = "decoder"

    def outputs(
        self, ids: Tensor, visible: Tensor | None = None, places: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        mask = torch.zeros(self.memory.shape[:2], dtype=torch.bool, device=self.own.device)
        expected = self.own.decode_unpadded(ids, self.memory, mask)
        hidden = self.twin.hidden_states(ids, self.memory, mask, visible, places)
        return _alike(self.twin.logits(hidden), expected), expected

    def skips(self, company: Tensor, padding: int) -> bool:
        count, ids = len(company), company[None].to(self.own.device)
        ids[:, 1] = padding
        visible = torch.ones(count, count, dtype=torch.bool, device=self.own.device).tril()
        visible[:, 1] = False
        # Padding takes a position, or none.
        places = [None, torch.tensor([[0, 0, *range(1, count - 1)]], device=self.own.device)]
        others = [column for column in range(count) if column != 1]
        return any(
            is_same(*(each[:, others] for each in self.outputs(ids, visible, place)))
            for place in places[: 1 if self.twin.spec.positions == "relative" else 2]
        )


def _in_parts(ids: Sequence[int], length: int) -> tuple[Tensor, ...]:
    """All ids, in a random order, as rows of a length or shorter."""
    generator = torch.Generator("cpu").manual_seed(0)
    order = torch.randperm(len(ids), generator=generator, device="cpu")
    parts: tuple[Tensor, ...] = torch.tensor(ids, device="cpu")[order].split(length)
    return parts
