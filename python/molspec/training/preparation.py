"""Reaction files -> prepared data: canonicalise, align, split, filter, tokenise."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

from molspec.text import TokenizationError, Vocabulary, tokenize
from molspec.training import prepared as folder_format
from molspec.training.pairs import Made, PairOptions, Task, make_pairs
from molspec.training.prepared import SPLITS, PairTable, Prepared
from molspec.training.reactions import Row, read_rows

#: Natural log of the probability of each target, given (source, target) pairs; None where a pair
#: cannot be read.
Judge = Callable[[Iterable[tuple[str, str]]], Iterable[float | None]]

_SPECIAL_TOKENS = ("<PAD>", "<BOS>", "<EOS>")
#: Variants of a reaction where nothing else is asked for: for retro as many as Zhong et al. 2022.
_VARIANTS = {"retro": 20, "product": 1}
#: Rows that a process takes at a time.
_CHUNK = 256


@dataclass(frozen=True)
class PrepareOptions:
    """How to make pairs of reactions. Raises ValueError, naming the option, for a wrong value.

    task: "retro" writes product -> reactants, without molecules that give no atom to the product;
        "product" writes reactants and reagents -> product.
    variants: SMILES of each training reaction, the canonical one first (20 for retro, 1 for
        product); a validation reaction has its canonical one.
    reaction_column: the column of a table that holds reaction SMILES, by default found.
    validation_share: where no validation files are given, the share of products set aside.
    max_tokens: longest source or target.
    min_token_count: training pairs with a rarer token are left out, where the vocabulary is made.
    max_nats: training reactions whose canonical target the judge finds less probable than
        exp(-max_nats) are left out.
    workers: processes; the outcome does not depend on it.
    """

    task: Task
    variants: int | None = None
    reaction_column: str | None = None
    validation_share: float = 0.05
    max_tokens: int = 400
    min_token_count: int = 1
    seed: int = 0
    workers: int = 1
    max_nats: float | None = None

    def __post_init__(self) -> None:
        if self.task not in _VARIANTS:
            raise ValueError(f"task is {self.task!r}: expected {' or '.join(_VARIANTS)}")
        for name in ("variants", "max_tokens", "min_token_count", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: expected at least 1")
        if self.max_nats is not None and not self.max_nats > 0:
            raise ValueError(f"max_nats is {self.max_nats}: expected more than 0")
        if not 0.0 < self.validation_share < 1.0:
            raise ValueError(
                f"validation_share is {self.validation_share}: expected more than 0, less than 1"
            )

    def pair_options(self, validation_share: float) -> PairOptions:
        """Say what one row's pairs depend on."""
        variant_count = self.variants or _VARIANTS[self.task]
        return PairOptions(self.task, variant_count, validation_share, self.seed)


def prepare(
    files: Sequence[str | Path],
    output: str | Path,
    options: PrepareOptions,
    *,
    validation: Sequence[str | Path] = (),
    exclude: Sequence[str | Path] = (),
    vocabulary: Vocabulary | None = None,
    judge: Judge | None = None,
) -> Prepared:
    """Make training pairs of the reactions in `files` and write them to the folder `output`.

    Rows that make no pair are counted and listed in rejected.tsv, never fatal. Reactions whose
    product occurs in `exclude` (test sets) are left out; of those whose product occurs in
    `validation`, none is trained on. `vocabulary` is that of a model to train further. `judge` is
    asked about the canonical pair of each training reaction and rules out what is less probable
    than options.max_nats allows: records that are wrong or incomplete are improbable to a model of
    cleaner ones (Toniato et al. 2021 clean by what a model keeps forgetting).

    Raises ValueError where `output` exists, the vocabulary is not one of SMILES tokens, a file has
    no reactions at all or nothing is left, OSError where a file cannot be read or written.
    """
    output = Path(output)
    if output.exists():
        raise ValueError(f"output is {output}: it exists already")
    if not files:
        raise ValueError("files is empty: expected at least one file of reactions")
    if (judge is None) != (options.max_nats is None):
        raise ValueError(
            f"max_nats is {options.max_nats} {'without' if judge is None else 'with'} a judge: "
            "expected both or neither"
        )
    if vocabulary is not None and not vocabulary.atomwise:
        raise ValueError("vocabulary is one of learned pieces: expected one of SMILES tokens")
    made = _Sieve(options.max_tokens, _products(exclude, options))
    if validation:
        made.take(_make(validation, options, validation_share=1.0), "validation files")
        made.take(_make(files, options, validation_share=0.0), "files")
    else:
        made.take(_make(files, options, options.validation_share), "files")
    if judge is not None and options.max_nats is not None:
        made.ask(judge, options.max_nats)
    if vocabulary is None:
        vocabulary = _vocabulary(made.kept["train"], options.min_token_count)
    tables = {split: _encode(made, split, vocabulary) for split in SPLITS}
    for split, table in tables.items():
        if not len(table):
            raise ValueError(f"no {split} pair is left: {_in_words(made.rejected)}")
    description = _describe(files, validation, exclude, options, made, tables)
    prepared = Prepared(vocabulary, tables["train"], tables["validation"], description)
    _write(prepared, made.rejected, output)
    return prepared


@dataclass(frozen=True)
class _Rejection:
    split: str
    row: Row
    reason: str


@dataclass
class _Sieve:
    """Keeps the rows that have pairs to learn from and lists the others."""

    max_tokens: int
    excluded: frozenset[str]
    kept: dict[str, list[Made]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    rejected: list[_Rejection] = field(default_factory=list)
    _validation_products: set[str] = field(default_factory=set)
    _seen: set[tuple[str, str, str]] = field(default_factory=set)

    def take(self, rows: Iterable[Made], what: str) -> None:
        """Sort rows; validation reactions come before the training reactions they rule out."""
        for made in tqdm(rows, desc=what, unit=" rows", disable=None):
            reason = made.reason or self._reason(made)
            if reason:
                self.reject(made, reason)
                continue
            self.kept[made.split].append(made)
            self._seen.add((made.split, *made.pairs[0]))
            if made.split == "validation":
                self._validation_products.add(made.product)

    def ask(self, judge: Judge, max_nats: float) -> None:
        """Keep the training reactions that are probable enough to the judge."""
        rows, self.kept["train"] = self.kept["train"], []
        log_probs = judge(row.pairs[0] for row in rows)
        judged = zip(rows, log_probs, strict=True)
        for row, log_prob in tqdm(judged, "judge", len(rows), unit=" reactions", disable=None):
            if log_prob is None:
                self.reject(row, "unreadable to the judge")
            elif log_prob < -max_nats:
                self.reject(row, f"more than {max_nats:g} nats to the judge")
            else:
                self.kept["train"].append(row)

    def reject(self, made: Made, reason: str) -> None:
        """List a row that has no pair."""
        self.rejected.append(_Rejection(made.split, made.row, reason))

    def _reason(self, made: Made) -> str | None:
        if made.product in self.excluded:
            return "product of an excluded file"
        if made.split == "train" and made.product in self._validation_products:
            return "product of a validation reaction"
        if (made.split, *made.pairs[0]) in self._seen:
            return "repeat"
        try:
            longest = max(len(tokenize(text)) for text in chain.from_iterable(made.pairs))
        except TokenizationError:
            return "no atomwise tokens"
        return f"more than {self.max_tokens} tokens" if longest > self.max_tokens else None


def _products(files: Sequence[str | Path], options: PrepareOptions) -> frozenset[str]:
    rows = _make(files, options, validation_share=1.0)
    return frozenset(made.product for made in rows if made.product)


def _make(
    files: Sequence[str | Path], options: PrepareOptions, validation_share: float
) -> Iterator[Made]:
    rows = chain.from_iterable(read_rows(Path(file), options.reaction_column) for file in files)
    make = partial(make_pairs, options=options.pair_options(validation_share))
    if options.workers == 1:
        yield from map(make, rows)
        return
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        yield from pool.map(make, rows, chunksize=_CHUNK)


def _vocabulary(rows: Iterable[Made], min_count: int) -> Vocabulary:
    counts: Counter[str] = Counter()
    for row in rows:
        for text in chain.from_iterable(row.pairs):
            counts.update(tokenize(text))
    frequent = [token for token, count in counts.items() if count >= min_count]
    frequent.sort(key=lambda token: (-counts[token], token))
    return Vocabulary((*_SPECIAL_TOKENS, *frequent))


def _encode(made: _Sieve, split: str, vocabulary: Vocabulary) -> PairTable:
    encoded: list[tuple[list[int], list[int]]] = []
    rows, made.kept[split] = made.kept[split], []
    for row in rows:
        try:
            encoded += [(vocabulary.encode(a), vocabulary.encode(b)) for a, b in row.pairs]
            made.kept[split].append(row)
        except TokenizationError:
            made.reject(row, "token not in the vocabulary")
    return PairTable.pack(encoded)


def _describe(
    files: Sequence[str | Path],
    validation: Sequence[str | Path],
    exclude: Sequence[str | Path],
    options: PrepareOptions,
    made: _Sieve,
    tables: dict[str, PairTable],
) -> dict[str, Any]:
    named = {"files": files, "validation": validation, "exclude": exclude}
    return {
        "task": options.task,
        "options": asdict(options),
        **{name: [Path(file).name for file in group] for name, group in named.items()},
        **{
            split: {
                "reactions": len(made.kept[split]),
                "pairs": len(table),
                "tokens": len(table.source_ids) + len(table.target_ids),
                "longest_source": int(table.source_lengths.max()),
                "longest_target": int(table.target_lengths.max()),
            }
            for split, table in tables.items()
        },
        "rejected": dict(Counter(rejection.reason for rejection in made.rejected).most_common()),
    }


def _in_words(rejected: Sequence[_Rejection]) -> str:
    counts = Counter(rejection.reason for rejection in rejected)
    words = ", ".join(f"{count} x {reason}" for reason, count in counts.most_common(5))
    return f"rejected {words}" if words else "the files have no rows"


def _write(prepared: Prepared, rejected: Sequence[_Rejection], output: Path) -> None:
    """Write all of it or nothing."""
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.unfinished")
    unfinished.mkdir(parents=True)
    try:
        folder_format.write(prepared, unfinished)
        with (unfinished / "rejected.tsv").open("w", encoding="utf-8") as stream:
            stream.write("split\tfile\trow\treason\treaction\n")
            for item in rejected:
                reaction = " ".join(item.row.reaction.split())
                cells = (item.split, item.row.file, str(item.row.number), item.reason, reaction)
                stream.write("\t".join(cells) + "\n")
        unfinished.rename(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
