"""`molspec.decode`: the decode loop for any PyTorch encoder-decoder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from molspec._native import Decoded, GuessModel, Hypothesis
from molspec.common import console, fields
from molspec.decoding import Scheduler, Source, Statistics
from molspec.decoding.scheduler import source_request
from molspec.drafting import DraftContext, NoDraft, TreeDraft
from molspec.drafting.options import PathsDraft
from molspec.drop_in import token_ids
from molspec.drop_in.token_ids import SpecialIds, copied
from molspec.engine import devices, ensemble
from molspec.engine.session import Session
from molspec.engine.torch import adapters, generation, module, probing
from molspec.prediction.config import DecodeConfig, Identity
from molspec.prediction.model import Model
from molspec.prediction.options import LARGEST, OPTION_NAMES, PredictOptions, check_names
from molspec.text import is_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from molspec.prediction.keywords import IdKeywords

_OTHERS = ("max_length", "target_prefix", "max_beam_factor")  # a parameter, or of SMILES
_NAMES = [name for name in OPTION_NAMES if name not in _OTHERS]
#: Options that compare or respell molecules, and the values that do neither.
_OF_MOLECULES = {
    "augmentations": (1,),
    **dict.fromkeys(("merge_duplicates", "canonical_queries"), (None, False)),
    **dict.fromkeys(("drop_invalid", "drop_unchanged", "drop_impossible"), (None, False)),
}
#: Drafts for PyTorch models, where every leaf of the tree is a row. On a CPU a row costs its whole
#: length, so it gets few and likely ones; on other devices mainly calls cost time.
_CPU_DRAFTS = TreeDraft(node_budget=32, min_probability=0.15)
_DEVICE_DRAFTS = TreeDraft(node_budget=32)
#: The draft models that were read for a module, as long as it lives.
_read: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Hypotheses:
    """The answers of `decode`, best first.

    sequences: int64 [batch, n_best, length], without BOS, with EOS if it was reached, padded on the
        right with pad_id.
    log_probs: float64 [batch, n_best], the sum over a sequence's tokens.
    lengths: int64 [batch, n_best], EOS counted.
    log_probs_after_prefix: float64 [batch, n_best], the part of log_probs after target_prefix.
    finished: bool [batch, n_best], False if max_length came before EOS.
    tolerated: int64 [batch, n_best], tokens that relaxed verification accepted in place of the
        model's own.
    token_log_probs: float32 [batch, n_best, length], with the option of that name: of every token
        of `sequences`; NaN elsewhere.

    If a beam found fewer than n_best answers, the rest have length 0 and log-probability -inf. The
    tensors are on the device of the source ids.
    """

    sequences: Tensor
    log_probs: Tensor
    lengths: Tensor
    log_probs_after_prefix: Tensor
    finished: Tensor
    tolerated: Tensor
    token_log_probs: Tensor
    statistics: Statistics


def decode(
    model: Any,
    source_ids: Tensor | Sequence[Sequence[int]],
    *,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    max_length: int,
    target_prefix: Tensor | Sequence[int] | Sequence[Sequence[int]] | None = None,
    tokens: Sequence[str] | None = None,
    source_to_target: Mapping[int, int] | None = None,
    n_best: int = 1,
    **options: Unpack[IdKeywords],
) -> Hypotheses:
    """Decode with any encoder-decoder: the answers of its own decode loop, in fewer calls.

    model: one of four. A module with the paper's `encode_src` and `decode_tgt`. An encoder-decoder
        of Hugging Face. A result of `compile` or `load`. A pair of callables,
        `encode(source_ids) -> memory` and `decode(target_ids, memory, memory_padding_mask,
        position_offset) -> logits`, see `engine.torch.module.EncoderDecoder`. Rows are padded on
        the left if `decode` requires its last argument, otherwise on the right. The model is not
        changed. It runs on its device, in its dtype, without gradients, in evaluation mode;
        afterwards its mode is restored.
    source_ids: integers [batch, length], padded on the right with pad_id, or a list of lists. They
        have the special tokens that the model expects.
    bos_id: the token that the decoder starts with. Hugging Face: config.decoder_start_token_id.
    max_length: maximum tokens of an answer, EOS counted.
    target_prefix: target ids that every answer begins with, without BOS: one list for all sources,
        or one for each, [batch, length], padded on the right with pad_id.
    tokens: the target's token strings by id, so that drafts follow ring-closure digits. A model of
        `compile` or `load` knows its own.
    source_to_target: the target id of each source id that has one, if the vocabularies differ.
    n_best, options: fields of `PredictOptions`, by name; those that compare or respell molecules
        are refused. `ModelDraft(module)` of `molspec.drafting` lets another model draft; module is
        what `model` may be.

    Answers are exact up to the model's own rounding. If the log-probabilities of two tokens differ
    by less, a batch of another shape may prefer the other token.

    A PyTorch model is tested first, in a few calls, and again for new ids or longer answers. If
    padding changes its answers, it decodes one source at a time, and a warning says so.

    Raises ValueError, naming the argument, if one is invalid, or if the model has no embedding
    for an id or a length. It also raises ValueError if the decoder sees later tokens, two equal
    calls differ, a mask is inverted, or the output is not logits. Raises TypeError for an unknown
    option, and DrafterError if a drafter fails.
    """
    own = model if isinstance(model, Model) else None
    model = _unwrapped(model)
    max_length = fields.check_count("max_length", max_length, LARGEST["max_length"])
    how = _options(model, max_length, {"n_best": n_best, **options})
    identity = _identity(model) if own is None else own.identity
    config = DecodeConfig(how, identity, canonical_queries=False, max_length=max_length)
    drafts = not isinstance(config.drafter, NoDraft)
    special_ids = SpecialIds(pad_id, bos_id, eos_id)
    sequences = token_ids.read_sources(source_ids, special_ids.pad_id)
    prefixes = token_ids.read_prefixes(target_prefix, special_ids, len(sequences))
    device = source_ids.device if isinstance(source_ids, Tensor) else torch.device("cpu")
    with ExitStack() as evaluation:

        def opened(
            model: Any, sequences: Sequence[Sequence[int]], max_length: int
        ) -> tuple[Session, int, int]:
            evaluation.enter_context(adapters.evaluating(model))
            return _open(model, special_ids, how.batch_size, device, sequences, max_length)

        session, vocab_size, batch_size = opened(model, sequences, max_length)
        token_ids.check_map(source_to_target, vocab_size)
        copies = [
            copied(index, sequence, special_ids, vocab_size, source_to_target) if drafts else []
            for index, sequence in enumerate(sequences)
        ]
        sources = [Source(*ids) for ids in zip(copies, sequences, prefixes, strict=True)]
        guess = _guess_model(own, special_ids, vocab_size, tokens)
        if own is not None:
            context = replace(own.context, guess=guess)
        else:
            read = {} if isinstance(model, tuple | list) else _read.setdefault(model, {})
            context = DraftContext(guess, tokens, read=read)
        open_module = partial(_open_drafter, opened, sequences, max_length, vocab_size)
        strategy = config.strategy(replace(context, open_module=open_module))
        scheduler: Scheduler[Decoded] = Scheduler(session, guess, batch_size)
        tickets = [scheduler.add(source_request(source, strategy)) for source in sources]
        answers = dict(scheduler.finish())
    decoded = [answers[ticket] for ticket in tickets]
    return _hypotheses(decoded, how.answer_count, special_ids, scheduler.statistics, device)


def _identity(model: Any) -> Identity:
    """What decides the default drafts: of other modules than molspec's nothing is known."""
    if not isinstance(model, devices.Engine):
        return Identity("", None)
    engines = model.engines if isinstance(model, ensemble.EnsembleEngine) else (model,)
    decoder_bytes = sum(each.packed.decoder_bytes for each in engines)
    return Identity("", engines[0].packed.weights.device.type, decoder_bytes=decoder_bytes)


def _unwrapped(model: Any) -> Any:
    """What decodes: of a model of molspec its engine, of a wrapper the module in it."""
    return adapters.unwrapped(model.engine if isinstance(model, Model) else model)


def _longest(model: Any) -> int | None:
    """The positions of a model's longest source and target, if they are known."""
    if isinstance(model, devices.Engine):
        return model.spec.max_positions
    return generation.longest_sequence(model) if adapters.is_hugging_face(model) else None


def _open(
    model: Any,
    special_ids: SpecialIds,
    batch_size: int,
    device: torch.device,
    sequences: Sequence[Sequence[int]],
    max_length: int,
) -> tuple[Session, int, int]:
    """A session on a model, the size of its target vocabulary, and how many sources it batches.

    Raises ValueError for an unsupported model.
    """
    if isinstance(model, devices.Engine):
        spec = model.spec
        token_ids.check_sources(sequences, max_length, _longest(model), spec.source_vocab_size)
        return model.session(batch_size), spec.target_vocab_size, batch_size
    if adapters.is_hugging_face(model):
        from molspec.engine.torch.hugging_face import HuggingFaceSession  # needs transformers

        session = HuggingFaceSession(model, special_ids.bos_id, special_ids.pad_id, batch_size)
        generation.warn_of_ids(model, vars(special_ids), "molspec.decode", 4)
        token_ids.check_sources(sequences, max_length, _longest(model), session.source_vocab_size)
        if sequences:
            session.check(min(sequences, key=len))
        return session, session.vocab_size, batch_size
    adapted = adapters.adapt(model, special_ids.pad_id, device)
    parts = model if isinstance(model, tuple | list) else (model,)
    vocab_size, flaw = probing.probe(parts, adapted, sequences, max_length)
    if flaw and batch_size > 1 and len({len(each) for each in sequences}) > 1:
        warnings.warn(f"{flaw}: molspec decodes one source at a time", stacklevel=4)
        batch_size = 1
    return module.ModuleSession(adapted, batch_size), vocab_size, batch_size


def _open_drafter(
    opened: Callable[[Any, Sequence[Sequence[int]], int], tuple[Session, int, int]],
    sequences: Sequence[Sequence[int]],
    max_length: int,
    vocab_size: int,
    drafter: Any,
) -> tuple[Session, int | None]:
    """A session on a draft model, and its positions: a longer source gets no drafts."""
    name = f"the drafter, a {type(drafter).__name__}"
    drafter = _unwrapped(drafter)
    longest = _longest(drafter)
    limit = max_length if longest is None else min(max_length, longest)
    readable = [each for each in sequences if longest is None or len(each) <= longest]
    with console.prefixing(f"{name}: "):
        session, own_size, _ = opened(drafter, readable, limit)
    if own_size != vocab_size:
        raise ValueError(
            f"{name}, has {own_size} target ids: expected {vocab_size}, as the model that it "
            "drafts for"
        )
    return session, longest


def _options(model: Any, max_length: int, options: Mapping[str, Any]) -> PredictOptions:
    check_names("decode", options, _NAMES)
    for name, accepted in _OF_MOLECULES.items():
        if (value := options.get(name, accepted[-1])) not in accepted:
            expected = f"expected {accepted[-1]}, token ids are not SMILES"
            raise ValueError(f"{name} is {value!r}: {expected}")
    made = PredictOptions(max_length=max_length, **options)
    if isinstance(model, devices.Engine):
        return made
    given = made.drafter is not None or made.node_budget is not None
    if given or made.search not in ("greedy", "sampling"):
        return made
    on_cpu = not isinstance(model, nn.Module) or adapters.device_of(model).type == "cpu"
    drafts = _CPU_DRAFTS if on_cpu else _DEVICE_DRAFTS
    # The sessions of Hugging Face's models have a cache. Drafts that decide answers must not depend
    # on other queries.
    if not (adapters.is_hugging_face(model) or made.drafts_decide):
        drafts = PathsDraft(**vars(drafts))
    return replace(made, drafter=drafts)


def _guess_model(
    own: Model | None, special_ids: SpecialIds, vocab_size: int, tokens: Sequence[str] | None
) -> GuessModel:
    """The data for drafters: of molspec's own models everything, with the n-gram model.

    Of other models the vocabulary; without token strings there are no ring closures.
    """
    special_ids.check_vocab_size(vocab_size)
    if own is not None and tokens is None:
        vocabulary = own.vocabulary
        bos_id = own.spec.decoder_start(vocabulary.bos_id)
        if special_ids == SpecialIds(vocabulary.pad_id, bos_id, vocabulary.eos_id):
            return own.context.guess
    if not isinstance(tokens, Sequence | None) or isinstance(tokens, str | bytes):
        raise ValueError(f"tokens is a {type(tokens).__name__}: expected a list of strings")
    if tokens is not None and len(tokens) != vocab_size:
        raise ValueError(
            f"tokens has {len(tokens)} strings: expected {vocab_size}, one for each target id"
        )
    for token_id, token in enumerate(tokens or ()):
        if not isinstance(token, str) or not is_text(token):
            raise ValueError(f"tokens[{token_id}] is {token!r}: expected text")
    return GuessModel(
        tokens=list(tokens or (f"<{token_id}>" for token_id in range(vocab_size))),
        pad=special_ids.pad_id,
        bos=special_ids.bos_id,
        eos=special_ids.eos_id,
        unk=special_ids.pad_id,
        ngram=None,
    )


def _hypotheses(
    decoded: Sequence[Decoded],
    n_best: int,
    special_ids: SpecialIds,
    statistics: Statistics,
    device: torch.device,
) -> Hypotheses:
    answers: list[list[Hypothesis]] = []
    for index, each in enumerate(decoded):
        if each.error:
            raise ValueError(f"source_ids[{index}]: {each.error}")
        # Without a beam's places that no answer takes.
        answers.append([found for found in each.hypotheses if found.log_prob != -math.inf])

    def ids(found: Hypothesis) -> list[int]:
        return found.token_ids + [special_ids.eos_id] * found.finished

    longest = max((len(ids(found)) for found in chain.from_iterable(answers)), default=0)

    def padded(values: Sequence[float], filling: float) -> list[float]:
        return [*values, *[filling] * (longest - len(values))]

    def tensor(dtype: torch.dtype, missing: Any, value: Callable[[Hypothesis], Any]) -> Tensor:
        rows = [[*map(value, each), *[missing] * (n_best - len(each))] for each in answers]
        return torch.tensor(rows, dtype=dtype, device=device)

    pad_id, unlikely = special_ids.pad_id, -math.inf
    return Hypotheses(
        sequences=tensor(torch.int64, padded([], pad_id), lambda h: padded(ids(h), pad_id)),
        log_probs=tensor(torch.float64, unlikely, lambda h: h.log_prob),
        log_probs_after_prefix=tensor(
            torch.float64, unlikely, lambda h: h.log_prob - (h.prefix_log_prob or 0)
        ),
        lengths=tensor(torch.int64, 0, lambda h: len(ids(h))),
        finished=tensor(torch.bool, False, lambda h: h.finished),
        tolerated=tensor(torch.int64, 0, lambda h: h.tolerated or 0),
        token_log_probs=tensor(
            torch.float32, padded([], math.nan), lambda h: padded(h.token_log_probs, math.nan)
        ),
        statistics=statistics,
    )
