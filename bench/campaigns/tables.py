"""The tables of Andronov et al. (J. Cheminform. 2025), theirs beside ours, as Markdown.

Every row is a run of `molspec evaluate` on one thread, with a file of its own in --folder: a killed
run resumes, also with a larger --limit. Runs of a table take turns, some queries each, so that a
disturbance of the machine affects all of them.

    python bench/campaigns/tables.py --product-table mit.tsv.xz --retro-table 50k.tsv.xz \
        --folder runs
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from tqdm import tqdm

import machine
from molspec import Model, checkpoints
from molspec.checkpoints.bundled import locate
from molspec.drafting import WindowDrafts
from molspec.evaluation import Evaluation, PairTable, Settings, Summary
from molspec.prediction.options import PredictOptions

#: Numbers of queries of the published runs, whose times are minutes for all queries.
PUBLISHED_QUERIES = {"product": 40_000, "retro": 5_007}
#: Queries that a run answers before the next run takes its turn.
TURN = 64


@dataclass(frozen=True)
class Run:
    """A row of a table: how to decode, and the published figures if there are any."""

    name: str
    options: PredictOptions
    #: For all queries, on an H100.
    minutes: float | None = None
    #: A query: means of 500 queries in the grid search for draft length and count.
    calls: float | None = None
    acceptance: float | None = None


def _greedy(drafter: str, batch_size: int = 1) -> PredictOptions:
    return PredictOptions(drafter=drafter, batch_size=batch_size)


def _windows(length: int, count: int) -> PredictOptions:
    return replace(_greedy("windows"), draft_length=length, draft_count=count)


# Times published without a draft count are assigned 23, a good one of the grid search.
PRODUCT_GREEDY = (
    Run("greedy", _greedy("none"), minutes=61.8),
    Run("windows, D = 4, N = 23", _windows(4, 23), minutes=26.0),
    Run("windows, D = 10, N = 23", _windows(10, 23), minutes=17.06),
    Run("windows, D = 7, N = 3", _windows(7, 3), calls=24.2),
    Run("windows, D = 17, N = 23", _windows(17, 23), calls=9.3),
    Run("windows, D = 20, N = 30", _windows(20, 30), calls=8.2),
    Run("tree", _greedy("tree")),
    Run("greedy, batch 32", _greedy("none", 32), minutes=4.13),
    Run("tree, batch 32", _greedy("tree", 32)),
)
PRODUCT_BEAM = (Run("exact, n = 5", PredictOptions(n_best=5)),)
PRODUCT_ACCURACY = {1: 0.884, 2: 0.925, 3: 0.937, 5: 0.947}

#: Minutes by n: beam search, SBS with D = 10, SBS with D = 0.
RETRO_MINUTES = {5: (36.7, 9.9, 23.1), 10: (39.9, 15.4, 25.7), 25: (46.2, 28.1, 34.6)}
RETRO_ACCURACY = {1: 0.5207, 3: 0.7516, 5: 0.8207, 10: 0.8908, 25: 0.9407}


def retro_beams(n: int) -> tuple[Run, ...]:
    """The searches at n answers a query, batch 1. The published grid search chose 10 x 10."""
    beam, sbs, sbs_without = RETRO_MINUTES[n]
    grid_search = (20.5, 0.765) if n == 10 else (None, None)
    options = PredictOptions(n_best=n, batch_size=1)
    windows = WindowDrafts(draft_length=10, draft_count=10)
    return (
        Run(f"standard, n = {n}", replace(options, beam="standard"), beam),
        Run(
            f"SBS, D = 10, N = 10, n = {n}",
            replace(options, beam="sbs", drafter=windows),
            sbs,
            *grid_search,
        ),
        Run(f"SBS, D = 0, n = {n}", replace(options, beam="sbs", drafter="none"), sbs_without),
        Run(f"exact, n = {n}", replace(options, beam="exact")),
    )


@dataclass(frozen=True)
class Runner:
    """Carries out the runs of a task: one model on one table."""

    task: str
    model_name: str
    weights: str
    model: Model
    device: str
    dtype: str
    table: PairTable
    folder: Path
    limit: int

    def __call__(self, runs: Sequence[Run]) -> list[Summary]:
        """Answer the remaining queries of the runs, in turns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for limit in (*range(TURN, self.limit, TURN), self.limit):
            for run in runs:
                evaluation = self._evaluation(run, limit)
                records = evaluation.run(self.model)
                done = evaluation.summary.queries
                for _ in tqdm(records, run.name, limit, initial=done, disable=None, leave=False):
                    pass
        return [self._evaluation(run, self.limit).summary for run in runs]

    def _evaluation(self, run: Run, limit: int) -> Evaluation:
        config = self.model.decode_config(run.options)
        settings = Settings(self.table, self.model_name, config)
        file = f"{self.task}-{re.sub('[^a-z0-9]+', '-', run.name.lower())}.jsonl"
        return Evaluation(settings, self.folder / file, limit)


def costs(task: str, runs: Sequence[Run], summaries: Sequence[Summary]) -> Iterator[str]:
    """Time, calls and acceptance; speed-ups are relative to the first run."""
    yield (
        "| search | ms a query, theirs | speed-up | ms a query, ours | speed-up "
        "| calls a query, theirs | ours | accepted of emitted tokens, theirs | ours |"
    )
    yield "|---|" + "---:|" * 8
    published = [
        None if run.minutes is None else 60e3 * run.minutes / PUBLISHED_QUERIES[task]
        for run in runs
    ]
    measured = [1e3 * summary.seconds / summary.queries for summary in summaries]
    for run, summary, theirs, ours in zip(runs, summaries, published, measured, strict=True):
        means = summary.costs()
        cells = (
            run.name,
            _cell(theirs, ".1f"),
            _cell(_ratio(published[0], theirs), ".2f", "x"),
            _cell(ours, ".1f"),
            _cell(_ratio(measured[0], ours), ".2f", "x"),
            _cell(run.calls, ".1f"),
            _cell(means["decoder_calls_per_query"], ".1f"),
            _cell(run.acceptance, ".1%"),
            _cell(means["accepted_per_emitted"], ".1%"),
        )
        yield f"| {' | '.join(cells)} |"


def accuracies(
    published: dict[int, float], runs: Sequence[Run], summaries: Sequence[Summary]
) -> Iterator[str]:
    """Top-k accuracy on canonical SMILES."""
    yield f"| | {' | '.join(f'top-{rank}' for rank in published)} |"
    yield "|---|" + "---:|" * len(published)
    yield f"| theirs | {' | '.join(_cell(value, '.2%') for value in published.values())} |"
    for run, summary in zip(runs, summaries, strict=True):
        cells = (_cell(summary.accuracy(rank), ".2%") for rank in published)
        yield f"| ours: {run.name} | {' | '.join(cells)} |"


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or denominator is None else numerator / denominator


def _cell(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def _runner(task: str, flags: argparse.Namespace) -> Runner:
    name = getattr(flags, f"{task}_model")
    checkpoint = checkpoints.read(locate(name))
    table = PairTable(getattr(flags, f"{task}_table"), task=checkpoint.task)
    model = Model(checkpoint, flags.dtype, flags.device)
    return Runner(
        *(task, name, checkpoint.fingerprint(), model, flags.device, flags.dtype),
        *(table, flags.folder, flags.limit),
    )


def product_tables(runner: Runner) -> Iterator[str]:
    """Tables 1 and 2."""
    yield from ("", "## 1. Product prediction: greedy decoding", "")
    yield from costs("product", PRODUCT_GREEDY, runner(PRODUCT_GREEDY))
    yield from ("", "They report 79 % of the emitted tokens as accepted drafts.")
    yield from ("", "## 2. Product prediction: accuracy", "")
    yield from accuracies(PRODUCT_ACCURACY, PRODUCT_BEAM, runner(PRODUCT_BEAM))


def retro_tables(runner: Runner, sizes: Sequence[int]) -> Iterator[str]:
    """Tables 3 and 4, for beams of these sizes."""
    yield from ("", "## 3. Retrosynthesis: beam searches")
    for n in sorted(sizes):
        runs = retro_beams(n)
        summaries = runner(runs)
        yield ""
        yield from costs("retro", runs, summaries)
    reached = {rank: value for rank, value in RETRO_ACCURACY.items() if rank <= n}
    yield from ("", "## 4. Retrosynthesis: accuracy", "")
    yield from accuracies(reached, runs, summaries)


def head(flags: argparse.Namespace, runners: Sequence[Runner]) -> Iterator[str]:
    """The machines, models and data of both sets of figures."""
    weights = ", ".join(f"{Path(each.model_name).name} {each.weights[:8]}" for each in runners)
    yield "Theirs: an H100, their models, USPTO-MIT mixed (40,000) and USPTO-50K (5,007) test sets."
    yield f"Ours: {machine.described(weights=weights)}; one thread,"
    yield f"{flags.device}, {flags.dtype}, batch 1 unless another is named, {flags.limit} queries"
    yield "at most (product: another split), other models. Speed-ups compare; milliseconds and"
    yield "accuracies do not."


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--product-table", type=Path, help="without it, no tables 1 and 2")
    parser.add_argument("--retro-table", type=Path, help="without it, no tables 3 and 4")
    parser.add_argument("--product-model", default="product")
    parser.add_argument("--retro-model", default="retro")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", choices=RETRO_MINUTES, default=[5, 10, 25])
    parser.add_argument("--folder", type=Path, required=True, help="folder for the runs' files")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tables = {"product": flags.product_table, "retro": flags.retro_table}
    runners = {task: _runner(task, flags) for task, table in tables.items() if table is not None}
    sections = [head(flags, [*runners.values()])]
    if "product" in runners:
        sections.append(product_tables(runners["product"]))
    if "retro" in runners:
        sections.append(retro_tables(runners["retro"], flags.n))
    for line in chain(*sections):
        print(line, flush=True)


if __name__ == "__main__":
    main()
