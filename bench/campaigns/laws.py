"""Check molspec's guarantees on whole test sets.

    python bench/campaigns/laws.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

1. Drafting changes nothing. For every dtype, `windows` and `tree` give the answers that `none`
   gives at batch size 1: the same tokens and the same log-prob, to the bit, at batch sizes 1, 7 and
   32, each time in another order, and with two threads at batch size 7. With --small, a model that
   drafts is checked too, alone and with drafts from the tree or from --smallest. With --samples,
   so many samples are drawn in place of greedy answers. With --prefix, answers begin with the
   query's first tokens; with --min-length, none ends before.
2. Native float32 agrees with PyTorch's float32: after every prefix of the native answer, the
   likeliest token of the training twin is the answer's next token. By induction the answer equals
   the twin's greedy decoding, at the cost of one pass instead of one a token. If a token differs,
   the twin's margin there, its best log-prob less its second best, must be below --margin: a tie
   that rounding decides. Each tie is listed.

Every SET is MODEL=FILE; MODEL is a bundled model's name, a checkpoint's path, or an ensemble, a+b,
for which the first law is checked alone. Sets are checked in
chunks. To continue a stopped run, take --offset and --limit from its last line. Exits with status 1
if a guarantee is broken.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from molspec import checkpoints
from molspec._native import Decoded
from molspec.checkpoints.bundled import locate
from molspec.checkpoints.ensemble import members
from molspec.decoding import Scheduler, Source
from molspec.decoding.scheduler import source_request
from molspec.drafting import AnyDrafter, ModelDraft, NoDraft, TreeDraft, WindowDrafts
from molspec.engine.ops import set_num_threads
from molspec.evaluation import PairTable
from molspec.model.transformer import Transformer
from molspec.prediction.config import DecodeConfig, Identity
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions

DTYPES = ("float32", "bfloat16", "int8")
BATCH_SIZES = (1, 7, 32)

_TORCH_BATCH = 32


@dataclass
class Findings:
    """The checks and their findings, over all sets."""

    checked: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    ties: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    largest_difference: float = 0.0


@dataclass(frozen=True)
class Query:
    """A query's source and its index among the queries."""

    index: int
    source: Source


@dataclass(frozen=True)
class Answer:
    """A decoded answer; answers are equal only if every bit is."""

    token_ids: tuple[int, ...]
    log_prob: float
    finished: bool


class Subject:
    """A model in every dtype, and its twin."""

    def __init__(self, name: str, dtypes: Sequence[str]) -> None:
        first, *others = (checkpoints.read(locate(each)).to("float32") for each in members(name))
        checkpoint = first
        self.name = Path(name).name
        self.vocabulary = checkpoint.vocabulary
        self.task = checkpoint.task
        self.models = {dtype: Model(checkpoint, dtype, others=others) for dtype in dtypes}
        self.is_ensemble = bool(others)
        self._context = next(iter(self.models.values())).context
        self.twin = Transformer(checkpoint.spec, pad_id=checkpoint.vocabulary.pad_id).eval()
        self.twin.load_state_dict(dict(checkpoint.weights))

    def queries(self, texts: Sequence[str], findings: Findings, prefix: int = 0) -> list[Query]:
        """The sources of the queries, whose answers begin with their first `prefix` tokens.

        `findings` lists those that the model refuses.
        """
        model = next(iter(self.models.values()))
        queries: list[Query] = []
        for text in texts:
            try:
                source = model.reader.source(text)
                source = replace(source, prefix=source.token_ids[:prefix])
                queries.append(Query(len(queries), source))
            except ValueError as error:
                findings.refused.append(f"{self.name}: {text}: {error}")
        return queries

    def answers(
        self, dtype: str, queries: Iterable[Query], options: PredictOptions
    ) -> dict[int, list[Answer]]:
        """Answers by the queries' indices."""
        batch_size = options.batch_size
        model = self.models[dtype]
        max_length = options.length_limit(model.spec.max_positions)
        config = DecodeConfig(options, Identity("", None), False, max_length)
        strategy = config.strategy(self._context)
        scheduler: Scheduler[Decoded] = Scheduler(
            model.engine.session(batch_size), self._context.guess, batch_size
        )
        indices = {
            scheduler.add(source_request(query.source, strategy)): query.index for query in queries
        }
        return {
            indices[ticket]: [
                Answer(tuple(each.token_ids), each.log_prob, each.finished)
                for each in decoded.hypotheses
            ]
            for ticket, decoded in scheduler.finish()
        }


# ------------------------------------------------------------------ law 1: drafting changes nothing


def drafters(small: str | None, smallest: str | None) -> dict[str, AnyDrafter]:
    found: dict[str, AnyDrafter] = {
        "none": NoDraft(),
        "windows": WindowDrafts(draft_length=10, draft_count=10),
        "tree": TreeDraft(),
    }
    if small is not None:
        found["small"] = ModelDraft(small)
        found["small and tree"] = ModelDraft(small, gamma=7, drafter="tree")
    if small is not None and smallest is not None:
        found["hierarchy"] = ModelDraft(small, gamma=7, drafter=ModelDraft(smallest, gamma=3))
    return found


def check_drafting(
    subject: Subject,
    sources: Sequence[Query],
    compared: Mapping[str, AnyDrafter],
    searched: Mapping[str, Any],
    findings: Findings,
) -> None:
    """Compare every drafter, batch size and order with `none` at batch 1, in every dtype.

    searched: options of the search.
    """
    for dtype in subject.models:
        alone = PredictOptions(**searched, drafter=NoDraft(), batch_size=1)
        plain = subject.answers(dtype, sources, alone)
        for name, drafter in compared.items():
            for batch_size in BATCH_SIZES:
                if (name, batch_size) == ("none", 1):
                    continue
                label = f"{subject.name} {dtype} {name} batch {batch_size}"
                shuffled = random.Random(batch_size).sample(sources, len(sources))
                batched = PredictOptions(**searched, drafter=drafter, batch_size=batch_size)
                set_num_threads(2 if batch_size == 7 else 1)
                found = subject.answers(dtype, shuffled, batched)
                findings.checked[label] += sum(map(len, plain.values()))
                findings.violations += [
                    f"{label}: {subject.vocabulary.decode(source.source.token_ids)}: "
                    f"{plain[source.index]} but {found.get(source.index)}"
                    for source in sources
                    if plain[source.index] != found.get(source.index)
                ]


# --------------------------------------------------------------- law 2: float32 agrees with PyTorch


def check_torch(
    subject: Subject, sources: Sequence[Query], margin: float, findings: Findings
) -> None:
    """Compare native float32 with the twin, token by token."""
    label = f"{subject.name} float32 against torch"
    found = subject.answers("float32", sources, PredictOptions(drafter=NoDraft()))
    answers = {index: best for index, (best,) in found.items()}
    findings.checked[label] += len(sources)
    for batch in _batches(sources):
        scored = _score(subject, batch, [answers[source.index] for source in batch])
        for source, (target_ids, log_probs) in zip(batch, scored, strict=True):
            chosen = log_probs.gather(1, target_ids[:, None])[:, 0]
            difference = abs(float(chosen.double().sum()) - answers[source.index].log_prob)
            findings.largest_difference = max(findings.largest_difference, difference)
            best = log_probs.topk(2).values
            wrong = (chosen < best[:, 0]).nonzero()
            if len(wrong):
                at = int(wrong[0])
                gap = float(best[at, 0] - best[at, 1])
                query = subject.vocabulary.decode(source.source.token_ids)
                line = f"{label}: {query}: token {at} differs; the margin there is {gap:.2g}"
                (findings.ties if gap < margin else findings.violations).append(line)


def _batches(sources: Sequence[Query]) -> Iterator[list[Query]]:
    """Groups of equal source length, which need no padding."""

    def length(source: Query) -> int:
        return len(source.source.encoder_ids)

    for _, group in groupby(sorted(sources, key=length), key=length):
        members = list(group)
        for begin in range(0, len(members), _TORCH_BATCH):
            yield members[begin : begin + _TORCH_BATCH]


def _score(
    subject: Subject, sources: Sequence[Query], answers: Sequence[Answer]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each answer's ids, EOS included, and the twin's log-probs [length, vocab] of their tokens.

    Targets are padded on the right, which the causal mask hides from every token.
    """
    vocabulary = subject.vocabulary
    targets = [
        torch.tensor([*answer.token_ids, *[vocabulary.eos_id] * answer.finished])
        for answer in answers
    ]
    source_ids = torch.tensor([list(source.source.encoder_ids) for source in sources])
    target_ids = torch.nn.utils.rnn.pad_sequence(
        [torch.cat([torch.tensor([vocabulary.bos_id]), target[:-1]]) for target in targets],
        batch_first=True,
        padding_value=vocabulary.pad_id,
    )
    with torch.inference_mode():
        log_probs = subject.twin(source_ids, target_ids).log_softmax(dim=-1)
    for row, target in enumerate(targets):
        yield target, log_probs[row, : len(target)]


# -------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Check that drafting changes nothing and that float32 agrees with PyTorch's.",
        epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--limit", type=int, help="queries of a set; all if not given")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--samples", type=int, help="samples to draw in place of greedy answers")
    parser.add_argument("--prefix", type=int, default=0, help="tokens of the query to begin with")
    parser.add_argument("--min-length", type=int, default=1, help="tokens of each answer")
    parser.add_argument("--small", help="a model that drafts")
    parser.add_argument("--smallest", help="a model that drafts for the small one")
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--margin", type=float, default=1e-4, help="natural log; default 1e-4")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    findings = Findings()
    for pair in options.sets:
        name, _, path = pair.partition("=")
        if not path:
            parser.error(f"{pair!r}: expected MODEL=FILE")
        _check_set(name, Path(path), options, findings)
    print(summary(findings))
    return 1 if findings.violations else 0


def _check_set(name: str, path: Path, options: argparse.Namespace, findings: Findings) -> None:
    subject = Subject(name, options.dtypes)
    stop = None if options.limit is None else options.offset + options.limit
    rows = PairTable(path, task=subject.task)
    queries = [row.query for row in islice(rows, options.offset, stop)]
    compared = drafters(options.small, options.smallest)
    searched = {"samples": options.samples, "min_length": options.min_length}
    changed = options.samples or options.prefix or options.min_length > 1
    is_plain = not changed and not subject.is_ensemble
    begin = monotonic()
    for first in range(0, len(queries), options.chunk):
        chunk = queries[first : first + options.chunk]
        sources = subject.queries(chunk, findings, options.prefix)
        check_drafting(subject, sources, compared, searched, findings)
        if "float32" in options.dtypes and is_plain:
            check_torch(subject, sources, options.margin, findings)
        print(
            f"{subject.name}: {first + len(chunk)} of {len(queries)} from {options.offset}, "
            f"{len(findings.violations)} violations, {len(findings.ties)} ties, "
            f"{monotonic() - begin:.0f} s",
            flush=True,
        )


def summary(findings: Findings) -> str:
    """Every check with its count, then the findings."""
    lines = [f"{label}: {count} answers" for label, count in findings.checked.items()]
    lines += [f"refused: {line}" for line in findings.refused]
    lines += [f"tie: {line}" for line in findings.ties]
    lines += [f"VIOLATION: {line}" for line in findings.violations]
    lines.append(
        f"largest difference of a log-prob from torch's: {findings.largest_difference:.2g}"
    )
    lines.append(
        f"{sum(findings.checked.values())} answers checked, {len(findings.violations)} violations, "
        f"{len(findings.ties)} ties that rounding decides, {len(findings.refused)} queries refused"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
