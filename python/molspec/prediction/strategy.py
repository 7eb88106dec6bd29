"""Choose search and drafter: the requested ones, or the cheapest for the device."""

from dataclasses import replace
from typing import Any, NamedTuple

from molspec import _native, drafting
from molspec.decoding import Drafter
from molspec.drafting import AnyConfiguration, DraftContext, Drafting, LookAhead, NoDraft, TreeDraft
from molspec.engine import ops
from molspec.prediction.options import OPTION_NAMES, PredictOptions

#: For SBS: a draft token is accepted if the likelier tokens have less probability together
#: (Andronov et al. 2025).
_NUCLEUS = 0.9975
#: On a CPU the nodes of a wider beam fill the matrix kernels' tiles without drafts, which then only
#: save passes, whose cost is reading the weights (docs/benchmarks/beams.md). A decoder of so many
#: bytes waits for that. So do Intel's processors with these kernels, where drafts pay unless the
#: hypotheses of all queries leave the caches.
_WIDEST_DRAFTED, _WIDEST_DRAFTED_WAITING = 3, 10
_WAITING_BYTES = 16 * 2**20
_WAITING_KERNELS = ("avx512", "avx512_vnni", "avx512_amx")
#: On a device drafting saves a lone query two thirds of its passes; the lookahead's time, on the
#: host, grows with the beam. Greedy trees fill a pass of many queries with rows that are no longer
#: free (docs/benchmarks/gpu.md).
_WIDEST_DRAFTED_ON_DEVICE, _MOST_QUERIES_DRAFTED = 25, 64
#: Hypotheses of all queries that are decoded together on a CPU: more of them leave its caches, as
#: their keys and values are read in every pass (docs/benchmarks/beams.md). On other devices the
#: server's bound on wide queries, which make a pass longer for all others.
_TOGETHER_ON_CPU, _TOGETHER_ON_DEVICE = 24, 100
#: Hypotheses that fill a device's passes: with more of them, a query's share falls little.
_OF_FILES_ON_DEVICE = 1024
#: The options of `_native.Sampling`.
_DRAWING = ("temperature", "top_k", "top_p", "seed")
#: For devices with expensive passes and cheap rows: with the last token a tile of sixteen rows, two
#: tiles for a single query.
_DEVICE_TREE, _LONE_DEVICE_TREE = TreeDraft(node_budget=15), TreeDraft(node_budget=31)


class SearchPlan(NamedTuple):
    """How a query is searched, for a model and batch size.

    external: the drafter that the host calls for it, if any.
    width: of the beam that it drafts for.
    """

    search: _native.SearchSpec
    external: AnyConfiguration | None = None
    width: int = 1

    def build(self, context: DraftContext, batch_size: int) -> Drafter | None:
        """A new external drafter for a decode loop, which it has state for."""
        if self.external is None:
            return None
        return replace(context, width=self.width, query_count=batch_size).build(self.external)


def search_plan(options: PredictOptions, drafter: AnyConfiguration, max_length: int) -> SearchPlan:
    """Plan the search of a query with this drafter."""
    common = {**_settings(options), "max_length": max_length}
    if options.search in ("exact", "standard", "sbs"):
        common |= {
            "beam_size": options.width,
            "n_best": options.n_best,
            "length_penalty": options.length_penalty,
        }
    if options.search in ("exact", "standard"):
        return _beam(options, drafter, common)
    common["drafter"] = drafting.native_options(drafter)
    external = None if isinstance(drafter, Drafting) else drafter
    if options.search == "sbs":
        spec = _native.SpeculativeBeamSpec(nucleus=_NUCLEUS, **common)
        return SearchPlan(spec, external)
    if options.samples is not None:
        common["samples"] = options.samples
        rejection = options.verification == "rejection"
        drawing = {name: getattr(options, name) for name in _DRAWING}
        common["rule"] = _native.Sampling(rejection=rejection, **drawing)
    elif options.verification == "relaxed":
        by_drafter = options.judge == "drafter"
        common["rule"] = _native.Relaxed(
            beta=options.beta, tau=options.tau, judged_by_drafter=by_drafter
        )
    return SearchPlan(_native.SequenceSpec(**common), external)


def forced_spec(options: PredictOptions, longest: int) -> _native.ForcedSpec:
    """The settings for given targets of at most `longest` tokens, EOS counted."""
    common = {**_settings(options), "max_length": longest, "min_length": 1}
    return _native.ForcedSpec(**common)


def _settings(options: PredictOptions) -> dict[str, Any]:
    """The options that are settings of every search: a forced one has no others."""
    names = (name for name in OPTION_NAMES if hasattr(_native.ForcedSpec, name))
    return {name: getattr(options, name) for name in names}


def _beam(options: PredictOptions, drafter: AnyConfiguration, common: dict[str, Any]) -> SearchPlan:
    """A beam with its lookahead, and its external drafter, if any."""
    external = None
    if not isinstance(drafter, NoDraft):
        ahead = drafter
        if not isinstance(ahead, LookAhead):
            ahead = replace(lookahead(options.width, options.node_budget), drafter=ahead)
        external = ahead.drafter
        common |= {
            "steps": ahead.steps,
            "node_budget": ahead.node_budget,
            "min_confidence": ahead.min_confidence,
            "proposed": external is not None,
        }
    spec = _native.BeamSpec(finished_apart=options.finished == "separate", **common)
    return SearchPlan(spec, external, options.width)


def chosen_drafter(
    options: PredictOptions, device: str | None = None, decoder_bytes: int = 0
) -> AnyConfiguration:
    """Choose the drafter: the requested one, or the cheapest for this device and model.

    decoder_bytes: of the weights that a decoder pass reads.
    """
    is_tree = options.drafter in (None, "tree")
    open_choice = device is not None and options.node_budget is None
    if options.search in ("greedy", "sampling"):
        if not (is_tree and open_choice):
            return options.configuration
        if options.verification != "strict":  # drafts decide answers: the same for every batch
            return paying_tree(1)
        if options.samples is not None or device == "cpu":
            return paying_tree(options.batch_size * options.answer_count)
        if options.drafter is None and options.batch_size > _MOST_QUERIES_DRAFTED:
            return NoDraft()
        return _DEVICE_TREE if options.batch_size > 1 else _LONE_DEVICE_TREE
    if options.search in ("standard", "sbs"):
        return options.configuration
    if open_choice and options.drafter is None and not _drafts_pay(options, device, decoder_bytes):
        return NoDraft()
    return lookahead(options.width, options.node_budget) if is_tree else options.configuration


def _drafts_pay(options: PredictOptions, device: str | None, decoder_bytes: int) -> bool:
    width = options.width
    if device != "cpu":
        return options.batch_size == 1 and width <= _WIDEST_DRAFTED_ON_DEVICE
    if ops.instruction_set() in _WAITING_KERNELS:
        return width * queries_together(options, device) <= _TOGETHER_ON_CPU
    waits = decoder_bytes >= _WAITING_BYTES
    return width <= (_WIDEST_DRAFTED_WAITING if waits else _WIDEST_DRAFTED)


def hypotheses_together(device: str | None) -> int:
    """The maximum hypotheses of wide queries that share a pass."""
    return _TOGETHER_ON_CPU if device == "cpu" else _TOGETHER_ON_DEVICE


def queries_together(options: PredictOptions, device: str | None) -> int:
    """The queries to decode together, at most `options.batch_size`.

    On a CPU, few queries with several hypotheses; two always share the reading of the weights.
    """
    width = options.samples or options.width
    if device != "cpu" or width == 1:
        return options.batch_size
    return min(options.batch_size, max(2, hypotheses_together(device) // width))


def batch_of_files(options: PredictOptions, device: str | None) -> int:
    """The batch size for a file's queries, if none is requested."""
    if device == "cpu":
        return options.batch_size
    width = options.samples or options.width
    return max(options.batch_size, _OF_FILES_ON_DEVICE // width)


def paying_tree(batch_size: int) -> TreeDraft:
    """The drafts of greedy decoding on the CPU: each node must save more than it costs.

    In rows of a wide pass, an accepted node saves its own row in a later pass, about one more for
    the query's part in that pass, and its share of two for the pass itself; so it must be likely
    enough (docs/benchmarks/engine.md).
    """
    return TreeDraft(node_budget=16, min_probability=1 / (2 + 2 / batch_size))


def lookahead(beam_size: int, node_budget: int | None = None) -> LookAhead:
    """The default drafts of exact beam search.

    A wrong node costs a row of a pass; a right one saves a part of a pass, which is more if passes
    are narrow. docs/benchmarks/beams.md has the figures.
    """
    return LookAhead(node_budget or 5 * beam_size)
