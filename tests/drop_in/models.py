"""Models as users have them: torch's transformer with the paper's interface."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from molspec import Hypotheses, Vocabulary, decode

PAD, BOS, EOS = 0, 1, 2
#: Of models with 15 tokens.
VOCABULARY = Vocabulary(("<pad>", "<bos>", "<eos>", *"CcNnOo()12=#"))


def sinusoids(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def randomise(model: nn.Module) -> None:
    """Sets weights so large that every token affects all later ones."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            scale = 0.8 if "attn" in name else 2.0
            std = 1.5 if "featurizer" in name else scale / math.sqrt(parameter.shape[1])
            nn.init.normal_(parameter, std=std)


class PlainTransformer(nn.Module):
    """The model of Andronov et al.: embeddings, sinusoids, nn.Transformer, a classifier.

    output: what becomes of the logits, given the target ids too.
    """

    positions: Tensor

    def __init__(
        self,
        vocab_size: int = 15,
        width: int = 16,
        seed: int = 0,
        output: Callable[[Tensor, Tensor], Tensor] = lambda logits, _: logits,
        **options: Any,
    ) -> None:
        super().__init__()
        self._output = output
        torch.manual_seed(seed)
        self.src_token_featurizer = nn.Embedding(vocab_size, width, padding_idx=PAD)
        self.tgt_token_featurizer = nn.Embedding(vocab_size, width, padding_idx=PAD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pre-norm: "enable_nested_tensor is True, but ..."
            self.transformer = nn.Transformer(
                width, 2, 2, 2, 32, dropout=0.3, batch_first=True, **options
            )
        self.next_token_classifier = nn.Linear(width, vocab_size)
        randomise(self)
        with torch.no_grad():  # excludes PAD and BOS, and sometimes lets EOS win
            self.next_token_classifier.bias[[PAD, BOS]] = -100.0
            self.next_token_classifier.bias[EOS] = 2.0
        self.register_buffer("positions", 3 * sinusoids(600, width), persistent=False)

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        memory: Tensor = self.transformer.encoder(
            self.embedded(src), src_key_padding_mask=src_pad_mask
        )
        return memory

    def embedded(self, src: Tensor) -> Tensor:
        """What enters the encoder's layers."""
        hidden: Tensor = self.src_token_featurizer(src) + self.positions[: src.shape[1]]
        return hidden

    def decode_tgt(self, tgt: Tensor, memory: Tensor, memory_pad_mask: Tensor) -> Tensor:
        return self._decode(tgt, memory, memory_pad_mask, torch.zeros_like(tgt[:, :1]))

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        columns = torch.arange(tgt.shape[1], device=tgt.device)
        hidden = self.tgt_token_featurizer(tgt) + self.positions[(columns - offset).clamp(min=0)]
        hidden = self.transformer.decoder(
            hidden, memory, tgt_mask=self._attention_mask(tgt, offset), memory_key_padding_mask=mask
        )
        return self._output(self.next_token_classifier(hidden), tgt)

    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        """True if a column may not attend to another [row * head, column, column]."""
        length = tgt.shape[1]
        columns = torch.arange(length, device=tgt.device)
        future = columns > columns[:, None]
        padding = (columns < offset) | (tgt == PAD)
        diagonal = torch.eye(length, dtype=torch.bool, device=tgt.device)
        return ((future | padding[:, None]) & ~diagonal).repeat_interleave(2, dim=0)


class NotCausal(PlainTransformer):
    """Lacks the mask of later tokens."""

    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        return torch.zeros(tgt.shape[1], tgt.shape[1], dtype=torch.bool)


def log_softmax(logits: Tensor, _: Tensor) -> Tensor:
    return logits.log_softmax(dim=-1)


def softmax(logits: Tensor, _: Tensor) -> Tensor:
    return logits.softmax(dim=-1)


class OffsetTransformer(PlainTransformer):
    """The same for padding on the left: it takes the paper's position offsets [row, 1]."""

    def decode_tgt(  # type: ignore[override]
        self, tgt: Tensor, memory: Tensor, memory_pad_mask: Tensor, pos_enc_offset: Tensor
    ) -> Tensor:
        assert pos_enc_offset.shape == (len(tgt), 1)
        return self._decode(tgt, memory, memory_pad_mask, pos_enc_offset)


def wrapping(model: nn.Module) -> nn.Module:
    """A module that holds a model, as a trainer does."""
    wrapper = nn.Module()
    wrapper.model = model
    return wrapper


Callables = tuple[Callable[..., Tensor], Callable[..., Tensor]]


def callables(model: PlainTransformer) -> Callables:
    """A model as a pair of functions that take a position offset [row]."""

    def encode(source_ids: Tensor) -> Tensor:
        return model.encode_src(source_ids, source_ids == PAD)

    def decode(target_ids: Tensor, memory: Tensor, mask: Tensor, position_offset: Tensor) -> Tensor:
        assert position_offset.shape == (len(target_ids),)
        return model._decode(target_ids, memory, mask, position_offset[:, None])

    return encode, decode


def module_steps(
    encode: Callable[[Tensor], Tensor],
    decode: Callable[[Tensor, Tensor, Tensor], Tensor],
    source: Sequence[int],
) -> Callable[[Sequence[int]], list[float]]:
    """Next-token log-probabilities of a module, for one source without padding."""
    source_ids = torch.tensor([source])
    mask = torch.zeros_like(source_ids, dtype=torch.bool)
    with torch.no_grad():
        memory = encode(source_ids)

    @torch.no_grad()
    def next_tokens(prefix: Sequence[int]) -> list[float]:
        logits = decode(torch.tensor([prefix]), memory, mask)
        return logits[0, -1].log_softmax(dim=-1).tolist()

    return next_tokens


def copier(vocab_size: int, calls: list[tuple[int, ...]]) -> Callables:
    """A model that copies its source except every seventh token; `calls` collects shapes."""

    def encode(source_ids: Tensor) -> Tensor:
        return nn.functional.one_hot(source_ids, vocab_size).float()

    def decode(target_ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        calls.append(tuple(target_ids.shape))
        next_positions = torch.arange(1, target_ids.shape[1] + 1)
        copied = memory[:, next_positions.clamp(max=memory.shape[1] - 1)]
        is_changed = (next_positions % 7 == 6)[None, :, None]
        logits = 10 * torch.where(is_changed, copied.roll(1, dims=2), copied)
        logits[..., [PAD, BOS]] = -20.0
        at_end = next_positions >= (~mask).sum(dim=1)[:, None]
        logits[..., EOS] += 30.0 * at_end
        return logits

    return encode, decode


def check_answers(engine: Any, module: Any, sources: Any, *beams: int, **ids: Any) -> Hypotheses:
    """Checks a compiled engine's answers against the module's own, which the last beam gives."""
    for n_best in beams:
        expected = decode(module, sources, n_best=n_best, **ids)
        found = decode(engine, sources, n_best=n_best, **ids)
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.log_probs, expected.log_probs, atol=2e-4, rtol=1e-5)
    return expected
