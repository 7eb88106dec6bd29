"""Reaction files -> prepared data: canonicalise, align, split, filter, tokenise."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, get_args

from rdkit import rdBase

import molspec
from molspec.common import console, workers
from molspec.common.tables import check_rereadable, printable
from molspec.common.task import Task
from molspec.text import TokenizationError, Vocabulary, tokenize
from molspec.training import prepared as folder_format
from molspec.training.config import PrepareOptions
from molspec.training.pairs import SPLIT_OF, Made, has_spare, make_pairs, product_alone
from molspec.training.prepared import SPLITS, EncodedPairs, Prepared
from molspec.training.progress import Stages, digest
from molspec.training.reactions import Row, read_rows
from molspec.training.sieve import Judge, Sieve

_SPECIAL_TOKENS = ("<PAD>", "<BOS>", "<EOS>")
#: Rows that a process takes at a time, and maximum rows in progress.
_PIECE, _AHEAD = 64, 4096
#: The files to train on, to validate on and to exclude.
_Files: TypeAlias = Sequence[str | Path]
_Groups: TypeAlias = Mapping[str, _Files]


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
    """Make training pairs from the reactions in `files` and write them to the folder `output`.

    Rows without a pair are counted and listed in rejected.tsv; they are not errors.

    validation: files whose products are not trained on.
    exclude: files (test sets) whose products are left out. If such a file does not name the column
        of the product (src and tgt), both columns count as products.
    vocabulary: of a model to train further.
    judge: scores the canonical pair of each training reaction, and drops those that are less
        probable than options.max_nats allows. A model of cleaner records finds wrong or incomplete
        ones improbable (Toniato et al. 2021 drop records that a model forgets repeatedly).

    `output`/unfinished has the work until all is done. If the preparation was killed or its disk
    was full, the same call resumes from there and writes the same bytes.

    Raises ValueError if `output` exists and is another preparation, if the vocabulary is not one of
    SMILES tokens, if a file is a pipe or has no reactions, or if no pair is left. Raises OSError if
    a file cannot be read or written, RuntimeError if no worker can start, or if workers died three
    times with a row of `exclude`.
    """
    output = Path(output)
    groups = {"files": files, "validation": validation, "exclude": exclude}
    _check(output, groups, options, vocabulary, judge)
    settings = _settings(groups, options, vocabulary)
    if (done := _done(output, settings, vocabulary, judge)) is not None:
        return done
    # Other versions may make other pairs from the same reactions.
    versions = {"molspec": molspec.__version__, "rdkit": rdBase.rdkitVersion}
    judged_by = None if judge is None else judge.name
    progress = Stages(output, {**versions, **settings, "judge": judged_by})
    excluded = _products(progress, exclude, options)
    made = _sieved(progress, files, validation, excluded, options)
    judged = {}
    if judge is not None and options.max_nats is not None:
        judged = {"judge": {"name": judge.name, **made.judge(judge, options.max_nats, progress)}}
    if vocabulary is None:
        vocabulary = _vocabulary(made.selected["train"], options.min_token_count)
        _check_size(vocabulary)
    tables = {split: _encode(made, split, vocabulary) for split in SPLITS}
    for split, table in tables.items():
        if not len(table):
            progress.discard()  # other options or files are needed
            raise ValueError(f"no {split} pair is left: {_why(split, made, validation, options)}")
    counts = _counts(made, tables, options.task)
    description = {**settings, "excluded_products": len(excluded)} | judged | counts
    prepared = Prepared(vocabulary, tables["train"], tables["validation"], description)
    _write(prepared, made.rejected, progress)
    return prepared


def _check(
    output: Path,
    groups: _Groups,
    options: PrepareOptions,
    vocabulary: Vocabulary | None,
    judge: Judge | None,
) -> None:
    """Raise ValueError or OSError for what `prepare` refuses, before any work."""
    for name, group in groups.items():
        if isinstance(group, str | Path):
            raise ValueError(f"{name} is {str(group)!r}: expected a list of files")
    if not groups["files"]:
        raise ValueError("files is empty: expected at least one file of reactions")
    if (judge is None) != (options.max_nats is None):
        raise ValueError(
            f"max_nats is {options.max_nats} {'without' if judge is None else 'with'} a judge: "
            "expected both or neither"
        )
    if vocabulary is not None and not vocabulary.atomwise:
        raise ValueError("vocabulary is one of learned pieces: expected one of SMILES tokens")
    _check_size(vocabulary)
    written = output if output.exists() else output.parent
    if written.exists() and not os.access(written, os.W_OK):
        raise ValueError(f"output is {output}: {written} cannot be written to")
    for name, group in groups.items():
        for file in group:
            check_rereadable(Path(file))
            next(_read([file], options, needs_column=name == "files"), None)


def _settings(
    groups: _Groups, options: PrepareOptions, vocabulary: Vocabulary | None
) -> dict[str, Any]:
    """What decides the pairs, as the description names it."""
    kinds = zip(("files", "validation_files", "excluded_files"), groups.values(), strict=True)
    return {
        "task": options.task,
        "options": {name: value for name, value in asdict(options).items() if name != "workers"},
        **{kind: [*map(printable, group)] for kind, group in kinds},
        # By their order: several files may have one name.
        "contents": [digest(Path(file)) for group in groups.values() for file in group],
        "vocabulary": "of the files" if vocabulary is None else "of a model",
    }


def _sieved(
    progress: Stages,
    files: Sequence[str | Path],
    validation: Sequence[str | Path],
    excluded: frozenset[str],
    options: PrepareOptions,
) -> Sieve:
    """The pairs of all files, by split, with what was rejected."""
    made = Sieve(options.max_tokens, excluded)
    for name, group, words, share in (
        ("validation", validation, "validation files", 1.0),
        ("made", files, "files", 0.0 if validation else options.validation_share),
    ):
        if group:
            rejected = partial(Made, split=SPLIT_OF.get(share, ""), reason=workers.DIED)
            work = partial(_make, options=options, validation_share=share, failed=rejected)
            rows = _read(group, options, needs_column=group is files)
            made.take(progress.make(name, rows, work), words)
    return made


def _check_size(vocabulary: Vocabulary | None) -> None:
    """Raise ValueError if ids are larger than prepared data store."""
    if vocabulary is not None and vocabulary.size > folder_format.MOST_TOKENS:
        raise ValueError(
            f"vocabulary has {vocabulary.size} tokens: expected at most "
            f"{folder_format.MOST_TOKENS}; a larger min_token_count leaves fewer"
        )


def _done(
    output: Path, settings: dict[str, Any], vocabulary: Vocabulary | None, judge: Judge | None
) -> Prepared | None:
    """The data of this preparation if all was written; None if there is more to do.

    Raises ValueError if `output` is something else.
    """
    # An early kill leaves an empty folder.
    begun = (output / "unfinished").is_dir() or (output.is_dir() and not any(output.iterdir()))
    others = ""
    if (output / folder_format.LAST).is_file():
        done = folder_format.read(output)
        judged_by = done.description.get("judge", {}).get("name")
        same = {name: done.description.get(name) == value for name, value in settings.items()}
        same["judge"] = judged_by == (judge and judge.name)
        same["vocabulary"] &= vocabulary in (None, done.vocabulary)
        if all(same.values()):
            shutil.rmtree(output / "unfinished", ignore_errors=True)
            return done
        others = f", prepared from other {', '.join(name for name in same if not same[name])}"
    elif begun or not output.exists():
        return None
    raise ValueError(f"output is {output}: it exists already{others}: take another folder")


def _products(progress: Stages, files: _Files, options: PrepareOptions) -> frozenset[str]:
    """Products of all reactions, whichever of the columns src and tgt is the product."""
    rows = {
        row: None
        for task in get_args(Task)
        for row in _read(files, replace(options, task=task), needs_column=False)
    }
    if not rows:
        return frozenset()
    work = partial(_make, options=options, validation_share=1.0, failed=_refuse)
    made = progress.make("excluded", rows, work)
    products = (each.product or product_alone(each.row) for each in made)
    return frozenset(filter(None, products))


def _refuse(row: Row) -> NoReturn:
    """Raise for an excluded row: without it, its product might be trained on."""
    raise RuntimeError(
        f"exclude has row {row.number} of {row.file}: {workers.DIED}; expected to find its product"
    )


def _read(files: _Files, options: PrepareOptions, *, needs_column: bool) -> Iterator[Row]:
    """Rows of files; only those to train on must have the named column."""
    return chain.from_iterable(
        read_rows(Path(file), options.reaction_column, options.task, needs_column=needs_column)
        for file in files
    )


def _make(
    rows: Iterable[Row],
    options: PrepareOptions,
    validation_share: float,
    failed: Callable[[Row], Made],
) -> Iterator[Made]:
    """Make the pairs of rows. `failed` makes the result of a row whose workers died."""

    def make(rows: Iterator[Row]) -> Iterator[Made]:
        return (make_pairs(row, options=options, validation_share=validation_share) for row in rows)

    if options.workers == 1:
        return make(iter(rows))
    return workers.in_processes(make, rows, options.workers, failed, piece=_PIECE, ahead=_AHEAD)


def _vocabulary(rows: Iterable[Made], min_count: int) -> Vocabulary:
    counts: Counter[str] = Counter()
    for row in rows:
        for text in chain.from_iterable(row.pairs):
            counts.update(tokenize(text))
    frequent = [token for token, count in counts.items() if count >= min_count]
    frequent.sort(key=lambda token: (-counts[token], token))
    return Vocabulary((*_SPECIAL_TOKENS, *frequent))


def _encode(made: Sieve, split: str, vocabulary: Vocabulary) -> EncodedPairs:
    encoded: list[tuple[list[int], list[int]]] = []
    rows, made.selected[split] = made.selected[split], []
    for row in rows:
        try:
            encoded += [(vocabulary.encode(a), vocabulary.encode(b)) for a, b in row.pairs]
            made.selected[split].append(row)
        except TokenizationError as error:
            made.reject(row, "token not in the vocabulary", str(error).partition(": ")[2])
    return EncodedPairs.pack(encoded)


def _counts(made: Sieve, tables: dict[str, EncodedPairs], task: Task) -> dict[str, Any]:
    unmapped = [each for each in made.selected["train"] if not each.row.is_mapped]
    with_reagents = [each for each in unmapped if has_spare(each.pairs[0][1], each.product)]
    return {
        **{
            split: {"reactions": len(made.selected[split]), **table.counts()}
            for split, table in tables.items()
        },
        "unmapped": len(unmapped),
        "with_reagents": len(with_reagents) if task == "retro" else 0,
        "aligned": len(unmapped) < len(made.selected["train"]),
        "rejected": dict(Counter(rejection.reason for rejection in made.rejected).most_common()),
    }


def _why(split: str, made: Sieve, validation: _Files, options: PrepareOptions) -> str:
    """The reason why a split has no pair."""
    count = len(made.selected["train"])
    if split == "validation" and not validation and count:
        return (
            f"of {count} reactions none fell into validation_share {options.validation_share}: "
            "raise it or give validation files"
        )
    counts = Counter(rejection.reason for rejection in made.rejected)
    words = ", ".join(f"{count} x {reason}" for reason, count in counts.most_common(5))
    return f"rejected {words}" if words else "the files have no rows"


def _write(prepared: Prepared, rejected: Sequence[Made], progress: Stages) -> None:
    """Write the folder completely or not at all: prepared.json is the last file."""
    done = progress.folder / "done"
    with console.naming(done):
        done.mkdir(exist_ok=True)
        folder_format.write(prepared, done)
        with (done / "rejected.tsv").open("w", encoding="utf-8") as stream:
            stream.write("file\trow\tsplit\treason\treaction\n")
            for item in rejected:
                reaction = " ".join(item.row.reaction.split())
                reason = ": ".join(filter(None, (item.reason, item.detail)))
                cells = (item.row.file, str(item.row.number), item.split, reason, reaction)
                stream.write("\t".join(cells) + "\n")
    progress.commit(folder_format.LAST)
