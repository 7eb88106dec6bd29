"""The native drafters (csrc/drafting), and a simulation of decoding with them."""

import time
from collections.abc import Iterable, Sequence

from molspec import _native
from molspec.decoding import DraftTree, Path, Statistics
from molspec.drafting import options
from molspec.drafting.options import AnyConfiguration, Drafting, TreeDraft


def native_options(drafting: AnyConfiguration) -> _native.DrafterOptions:
    """The drafter as native searches take it, or that it is an external one."""
    if isinstance(drafting, options.NoDraft):
        return _native.NoDraftOptions()
    if isinstance(drafting, TreeDraft):
        whole_paths = isinstance(drafting, options.PathsDraft)
        return _native.TreeOptions(whole_paths=whole_paths, **vars(drafting))
    if isinstance(drafting, options.WindowDrafts):
        others = {name: value for name, value in vars(drafting).items() if name != "choice"}
        return _native.WindowOptions(even=drafting.choice == "even", **others)
    return _native.ExternalOptions()


class NativeDrafters:
    """A native drafter with the methods of `Drafter`: one native object for each query."""

    def __init__(self, drafting: Drafting, guess: _native.GuessModel) -> None:
        self._options, self._guess = native_options(drafting), guess
        self._drafters: dict[int, _native.NativeDrafter] = {}

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin a query."""
        self._drafters[row] = _native.NativeDrafter(self._options, self._guess)
        self._drafters[row].start(source_ids)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        return [self._drafters[path.row].propose(path.token_ids) for path in paths]

    def release(self, row: int) -> None:
        """End a query."""
        del self._drafters[row]


def simulate(
    drafting: Drafting,
    guess: _native.GuessModel,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    eos_id: int,
) -> Statistics:
    """Decode every source as if the model's greedy answer were its target.

    A call verifies the drafts after the last token and emits the accepted ones and one more; the
    first call drafts after BOS. Ids are without BOS and EOS. `seconds["draft"]` is processor time.
    """
    drafter = _native.NativeDrafter(native_options(drafting), guess)
    sums = Statistics()
    for source_ids, target_ids in pairs:
        output_ids = [*target_ids, eos_id]
        drafter.start(source_ids)
        sums.queries += 1
        sums.emitted_tokens += len(output_ids)
        written = 0
        while written < len(output_ids):
            begin = time.thread_time()
            tree = drafter.propose(output_ids[:written])
            sums.seconds["draft"] += time.thread_time() - begin
            sums.decoder_calls += 1
            sums.drafted_tokens += len(tree)
            node = -1
            # The last token is EOS, which is never drafted: there is always one more token.
            while (node := tree.child(node, output_ids[written])) >= 0:
                sums.accepted_tokens += 1
                written += 1
            written += 1
    return sums
