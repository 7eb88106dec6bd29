"""Choose search and drafter: the requested ones, or the cheapest for the device."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from molspec import _native, ops
from molspec.decoding import Drafter, Strategy
from molspec.drafting import (
    AnyConfiguration,
    DraftContext,
    Drafting,
    LookAhead,
    NoDraft,
    TreeDraft,
)
from molspec.options import PredictOptions

#: Of SBS: a draft token is accepted while the likelier ones have less probability than this
#: together (Andronov et al. 2025).
_NUCLEUS = 0.9975
#: On a CPU the nodes of a wider beam fill the matrix kernels' tiles as they are: drafting saves
#: passes, of which a pass's weights are the cost (docs/benchmarks/beams.md). A decoder of so many
#: bytes waits for them, and so do Intel's processors, where these kernels run.
_WIDEST_DRAFTED, _WIDEST_DRAFTED_WAITING = 3, 10
_WAITING_BYTES = 16 * 2**20
_WAITING_KERNELS = ("avx512", "avx512_vnni")
#: On a device drafting saves two thirds of the passes and costs a tenth more rows, which are nearly
#: free while they are few, and the time of looking ahead, which grows with the beam: counted, not
#: yet measured (docs/benchmarks/engine.md).
_WIDEST_DRAFTED_ON_DEVICE = 7
_MOST_HYPOTHESES_DRAFTED = 1024
#: Where passes are dear and rows are not: with the last token a whole tile of sixteen rows, two for
#: a query alone.
_DEVICE_TREE, _LONE_DEVICE_TREE = TreeDraft(node_budget=15), TreeDraft(node_budget=31)


def search_spec(
    options: PredictOptions,
    context: DraftContext,
    max_length: int,
    device: str | None = None,
) -> Strategy:
    """Specification of the search of a query.

    context: the model, as drafters are built for it.
    device: where molspec's own engine runs, which decides what is left open; None for models of
    PyTorch.
    """
    drafting = chosen_drafter(options, device, context.decoder_bytes)
    if options.is_greedy:
        native, outside = _native_drafter(drafting, context)
        relaxed = None
        if options.verification == "relaxed":
            relaxed = _native.Relaxed(
                beta=options.beta,
                tau=options.tau,
                judged_by_drafter=options.judge == "drafter",
            )
        return Strategy(
            _native.GreedySpec(max_length=max_length, drafter=native, relaxed=relaxed), outside
        )
    if options.samples is not None:
        return _samples(drafting, context, max_length, options, options.samples)
    lists: dict[str, Any] = {
        "beam_size": options.width,
        "n_best": options.n_best,
        "max_length": max_length,
        "length_penalty": options.length_penalty,
    }
    if options.beam == "sbs":
        native, outside = _native_drafter(drafting, context)
        return Strategy(
            _native.SpeculativeBeamSpec(**lists, nucleus=_NUCLEUS, drafter=native), outside
        )
    return _beam(drafting, context, lists, options)


def _beam(
    drafting: AnyConfiguration,
    context: DraftContext,
    lists: dict[str, Any],
    options: PredictOptions,
) -> Strategy:
    finished_apart = options.finished == "separate"
    ahead, outside = _ahead(drafting, context, options.width)
    return Strategy(_native.BeamSpec(**lists, finished_apart=finished_apart, **ahead), outside)


def _samples(
    drafting: AnyConfiguration,
    context: DraftContext,
    max_length: int,
    options: PredictOptions,
    samples: int,
) -> Strategy:
    settings: dict[str, Any] = {
        "max_length": max_length,
        "sampling": _native.Sampling(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            seed=options.seed,
        ),
    }
    if options.replacement:
        native, outside = _native_drafter(drafting, context)
        rejection = options.verification == "rejection"
        return Strategy(
            _native.SampleSpec(samples=samples, **settings, drafter=native, rejection=rejection),
            outside,
        )
    ahead, outside = _ahead(drafting, context, samples + 1)
    spec = _native.StochasticBeamSpec(beam_size=samples + 1, n_best=samples, **settings, **ahead)
    return Strategy(spec, outside)


def _ahead(
    drafting: AnyConfiguration, context: DraftContext, width: int
) -> tuple[dict[str, Any], Drafter | None]:
    """How far a beam of `width` looks ahead, and who drafts for it from outside."""
    if isinstance(drafting, NoDraft):
        return {}, None
    ahead = drafting
    if not isinstance(ahead, LookAhead):
        ahead = replace(lookahead(width), drafter=ahead)
    context = replace(context, width=width)
    outside = None if ahead.drafter is None else context.build(ahead.drafter)
    return {
        "steps": ahead.steps,
        "node_budget": ahead.node_budget,
        "min_confidence": ahead.min_confidence,
        "proposed": outside is not None,
    }, outside


def chosen_drafter(
    options: PredictOptions, device: str | None = None, decoder_bytes: int = 0
) -> AnyConfiguration:
    """Choose the drafter: the requested one, or the cheapest for this device and model.

    decoder_bytes: of the weights that a pass of the decoder reads.
    """
    open_choice = device is not None and options.node_budget is None
    if options.is_greedy:
        if open_choice and options.drafter in (None, "tree"):
            if device == "cpu":
                return paying_tree(options.batch_size)
            return _DEVICE_TREE if options.batch_size > 1 else _LONE_DEVICE_TREE
        return options.drafter_or("tree")
    if options.samples is not None and options.replacement:
        if open_choice and options.drafter in (None, "tree"):
            return paying_tree(options.batch_size * options.samples)
        return options.drafter_or("tree")
    if options.beam in ("sbs", "standard"):
        return options.drafter_or({"sbs": "windows", "standard": "none"}[options.beam])
    width = options.width if options.samples is None else options.samples + 1
    is_open = open_choice and options.drafter is None
    if is_open and not _drafts_pay(options, width, device, decoder_bytes):
        return NoDraft()
    if options.drafter in (None, "tree"):
        return lookahead(width, options.node_budget)
    return options.drafter_or("tree")


def _drafts_pay(
    options: PredictOptions, width: int, device: str | None, decoder_bytes: int
) -> bool:
    if device == "cpu":
        waits = decoder_bytes >= _WAITING_BYTES or ops.instruction_set() in _WAITING_KERNELS
        return width <= (_WIDEST_DRAFTED_WAITING if waits else _WIDEST_DRAFTED)
    few = width * options.batch_size <= _MOST_HYPOTHESES_DRAFTED
    return few and width <= _WIDEST_DRAFTED_ON_DEVICE


@lru_cache
def paying_tree(batch_size: int) -> TreeDraft:
    """How greedy decoding drafts on the CPU: a node must pay for itself.

    In rows of a wide pass, an accepted node saves the row that would have come instead, about one
    more for the query's part in a pass, and its share of the two that a pass costs whatever its
    rows; so it must be likely enough (docs/benchmarks/engine.md).
    """
    return TreeDraft(node_budget=16, min_probability=1 / (2 + 2 / batch_size))


def lookahead(beam_size: int, node_budget: int | None = None) -> LookAhead:
    """How exact beam search drafts by default.

    A wrong node costs a row of a pass, a right one saves a part of a pass, which is worth more
    where passes are narrow. docs/benchmarks/beams.md has the figures.
    """
    return LookAhead(node_budget or 5 * beam_size)


def _native_drafter(
    drafting: AnyConfiguration, context: DraftContext
) -> tuple[_native.DrafterOptions, Drafter | None]:
    """Options of the search's own drafter, and who drafts from outside of it."""
    if isinstance(drafting, Drafting):
        return drafting.native(), None
    return _native.OutsideOptions(), context.build(drafting)
