"""Reaction files -> prepared data: canonicalise, align, split, filter, tokenise."""

from __future__ import annotations

import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, get_args

from tqdm import tqdm

from molspec.task import Task
from molspec.text import TokenizationError, Vocabulary, tokenize
from molspec.training import prepared as folder_format
from molspec.training.pairs import Made, PairOptions, make_pairs
from molspec.training.prepared import SPLITS, PairTable, Prepared
from molspec.training.reactions import Row, read_rows

_SPECIAL_TOKENS = ("<PAD>", "<BOS>", "<EOS>")
#: Variants of a reaction where nothing else is asked for: for retro as many as Zhong et al. 2022.
_VARIANTS = {"retro": 20, "product": 1}
#: Rows that a process takes at a time.
_CHUNK = 256
#: Shares of the reactions, in per cent, whose nats to the judge are told.
_JUDGED = (10, 25, 50, 75, 90)


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
    workers: processes; what is written does not depend on it.
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


@dataclass(frozen=True)
class Judge:
    """A model that says how probable targets are.

    name: what to call it where it is told what was done.
    log_probs: natural log of the probability of each target, given (source, target) pairs; None
        where the model cannot read a pair.
    """

    name: str
    log_probs: Callable[[Iterable[tuple[str, str]]], Iterable[float | None]]


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
    product occurs in `exclude` (test sets) are left out; where such a file does not say which
    column is the product (src and tgt), both are taken for it. Of those whose product occurs in
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
    if output.parent.exists() and not os.access(output.parent, os.W_OK):
        raise ValueError(f"output is {output}: {output.parent} cannot be written to")
    for file in chain(files, validation, exclude):
        next(_read([file], options), None)  # an unreadable file is found before any work
    excluded = _products(exclude, options)
    made = _Sieve(options.max_tokens, excluded)
    for group, words, share in (
        (validation, "validation files", 1.0),
        (files, "files", 0.0 if validation else options.validation_share),
    ):
        if group:
            made.take(_make(_read(group, options), options, share), words)
    judged = {}
    if judge is not None and options.max_nats is not None:
        judged = {"judge": {"name": judge.name, **made.ask(judge, options.max_nats)}}
    if vocabulary is None:
        vocabulary = _vocabulary(made.kept["train"], options.min_token_count)
    tables = {split: _encode(made, split, vocabulary) for split in SPLITS}
    for split, table in tables.items():
        if not len(table):
            raise ValueError(f"no {split} pair is left: {_why(split, made, validation, options)}")
    named = {"files": files, "validation_files": validation, "excluded_files": exclude}
    names = {name: [Path(file).name for file in group] for name, group in named.items()}
    counts = _counts(made, tables)
    description = {**_asked(options), **names, "excluded_products": len(excluded)} | judged | counts
    prepared = Prepared(vocabulary, tables["train"], tables["validation"], description)
    _write(prepared, made.rejected, output)
    return prepared


@dataclass(frozen=True)
class _Rejection:
    split: str
    row: Row
    reason: str
    detail: str = ""


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

    def ask(self, judge: Judge, max_nats: float) -> dict[str, Any]:
        """Keep the training reactions that are probable enough to the judge; say what it found."""
        rows, self.kept["train"] = self.kept["train"], []
        log_probs = judge.log_probs(row.pairs[0] for row in rows)
        judged = zip(rows, log_probs, strict=True)
        nats: list[float] = []
        for row, log_prob in tqdm(judged, "judge", len(rows), unit=" reactions", disable=None):
            nats.append(math.inf if log_prob is None else -log_prob)
            if log_prob is None:
                self.reject(row, "unreadable to the judge")
            elif log_prob < -max_nats:
                self.reject(row, f"more than {max_nats:g} nats to the judge")
            else:
                self.kept["train"].append(row)
        nats.sort()
        shares = {f"{percent} %": nats[len(nats) * percent // 100] for percent in _JUDGED if nats}
        readable = {share: round(value, 2) for share, value in shares.items() if value < math.inf}
        return {"reactions": len(rows), "kept": len(self.kept["train"]), "nats": readable}

    def reject(self, made: Made, reason: str, detail: str = "") -> None:
        """List a row that has no pair."""
        self.rejected.append(_Rejection(made.split, made.row, reason, detail))

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
    """Products of all reactions, whichever of the columns src and tgt is the product."""
    rows = {
        row: None for task in get_args(Task) for row in _read(files, replace(options, task=task))
    }
    made = _make(rows, options, validation_share=1.0)
    return frozenset(row.product for row in made if row.product)


def _read(files: Sequence[str | Path], options: PrepareOptions) -> Iterator[Row]:
    return chain.from_iterable(
        read_rows(Path(file), options.reaction_column, options.task) for file in files
    )


def _make(rows: Iterable[Row], options: PrepareOptions, validation_share: float) -> Iterator[Made]:
    make = partial(make_pairs, options=options.pair_options(validation_share))
    if options.workers == 1:
        yield from map(make, rows)
        return
    with ProcessPoolExecutor(options.workers, get_context("spawn"), _end_with_parent) as pool:
        yield from pool.map(make, rows, chunksize=_CHUNK)


def _end_with_parent() -> None:
    """Let a worker end when the process that asked for it is killed: a pool alone waits forever."""

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


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
        except TokenizationError as error:
            made.reject(row, "token not in the vocabulary", str(error).partition(": ")[2])
    return PairTable.pack(encoded)


def _asked(options: PrepareOptions) -> dict[str, Any]:
    asked = asdict(options)
    del asked["workers"]
    return {"task": asked["task"], "options": asked}


def _counts(made: _Sieve, tables: dict[str, PairTable]) -> dict[str, Any]:
    return {
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


def _why(
    split: str, made: _Sieve, validation: Sequence[str | Path], options: PrepareOptions
) -> str:
    """Say why a split has no pair."""
    count = len(made.kept["train"])
    if split == "validation" and not validation and count:
        return (
            f"of {count} reactions none fell into validation_share {options.validation_share}: "
            "raise it or give validation files"
        )
    counts = Counter(rejection.reason for rejection in made.rejected)
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
                reason = f"{item.reason}: {item.detail}" if item.detail else item.reason
                cells = (item.split, item.row.file, str(item.row.number), reason, reaction)
                stream.write("\t".join(cells) + "\n")
        unfinished.rename(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
