"""Reads queries from chemists' files, one by one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molspec.common import tables
from molspec.common.console import STANDARD, UsageError, print_err, quoted
from molspec.common.task import COLUMNS, Task
from molspec.files.answer import Query
from molspec.files.racemates import without_other_extension
from molspec.files.sdf import is_end, read_records

if TYPE_CHECKING:
    from molspec.text.reactions import Column

#: The format of queries that do not come from a file.
_GIVEN = "given"
#: Formats of a file of queries, by the endings of its name; others are smi.
INPUT_FORMATS = {
    "smi": (".smi", ".smiles", ".txt", ".ism", ".can"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "sdf": (".sdf", ".sd", ".mol"),
    "rxn": tables.RXN_ENDINGS,
}
#: Formats of structures.
_RECORDS = ("sdf", "rxn")
#: Columns that are used if none is named.
_QUERY_COLUMNS = (
    *("isomeric_smiles", "isomericsmiles", "isosmiles"),  # beside those without stereo
    *("smiles", "canonical_smiles", "canonicalsmiles", "smiles_string", "query", "src"),
)
_KEY_COLUMNS = ("inchikey", "inchi_key", "standard_inchi_key")
#: Words that no name of a molecule has, but a line of tokens.
_PUNCTUATION = frozenset("()=#.")
#: What is before an extension.
_BAR = re.compile(r"(?<=\S)\s+\|")
_BRACKETS = re.compile(r"\|?\s*(\[\w+\]\s*)+")
#: An identifier that may stand before SMILES.
_IDENTIFIER = re.compile(r"[\w.:-]+")
#: What follows an atom in files of structures.
_COORDINATES = re.compile(r"(-?\d+\.\d+\s+){2}-?\d+\.\d+\b")
_ID = re.compile(r"(?i)(^|_|\b)id|id$")
#: In the possible header of the first column of a file of SMILES and names, as RDKit writes it.
_TITLE = "smiles"


class QueryFile:
    """A file of queries that is open. It can be read once.

    options: the names of the options that name its columns, where they differ.
    """

    def __init__(self, name: str, form: str, lines: Iterator[str]) -> None:
        self.name = name
        self.form = form
        self.options: Mapping[str, str] = {}
        self._lines = lines

    def queries(
        self,
        column: str | None = None,
        name_column: str | None = None,
        task: Task | None = None,
        copied: Sequence[str] = (),
        optional: Sequence[str] = (),
        *,
        atomwise: bool = True,
    ) -> Iterator[Query]:
        """Yield all queries in their order, also damaged ones.

        column: the table's column of SMILES; by default smiles, query, src, the column
            that `task` decides, source, or the first with a reaction. Of a whole reaction the query
            is the side that `task` decides.
        name_column: the column of identifiers in a table or in an SDF's data; by default id or
            name, and the title of an SDF's record.
        copied: further columns of a table, for `Query.columns`; the first of those in `optional` is
            empty if there is none.
        atomwise: false for a model of learned pieces, whose queries may have blanks: then only a
            tab separates a line's query from its name.

        Raises ValueError if there is no such column, or a row is invalid CSV.
        """
        if self.form == "smi" and not (atomwise or column or name_column or copied):
            return self._of_texts()
        if self.form in ("csv", "tsv"):
            return self._of_table(column, name_column, task, copied, optional)
        for option, name in (("copy_column", (*copied, None)[0]), ("column", column)):
            if name is not None:
                option = self._called(option)
                raise ValueError(f"{option} is {name!r}: expected none, {self.name} is not a table")
        if self.form == "sdf":
            return read_records(self._lines, self.name, name_column)
        if name_column is not None:
            option = self._called("id_column")
            raise ValueError(f"{option} is {name_column!r}: expected none, {self.name} has none")
        if self.form == "rxn":
            return self._of_reactions(task)
        if self.form == "smi" and self._is_table(task):
            return self._of_table(None, None, task)
        if self.form == "smi":
            self._put_smiles_first(task)
        return self._of_lines(task)

    def _peeked(self, count: int = 1) -> list[str]:
        """The next lines, which are read again."""
        peeked = list(islice(self._lines, count))
        self._lines = chain(peeked, self._lines)
        return peeked

    def _put_smiles_first(self, task: Task | None) -> None:
        """Swap the words of all lines if the first one's are an identifier and SMILES.

        So are files of PubChem. A stock may begin with InChIKeys, which are molecules there.
        """
        from molspec.text import canonicalise
        from molspec.text.smiles import INCHIKEY

        words = _words("".join(self._peeked()))
        if len(words) != 2 or not _IDENTIFIER.fullmatch(words[0]) or words[0].casefold() == _TITLE:
            return
        if (task is None and INCHIKEY.fullmatch(words[0])) or canonicalise(words[0]) is not None:
            return
        if words[1] and canonicalise(words[1]) is not None:
            print_err(f"{self.name}: {quoted(words[0])} is read as an identifier, SMILES behind it")
            self._lines = ("\t".join(_words(line)[::-1]) + "\n" for line in self._lines)

    def _is_table(self, task: Task | None) -> bool:
        """Whether lines are rows of a table, not SMILES and their names.

        Its first line has the name of a column of SMILES behind a tab, or for a task a reaction.
        One line decides if it can: a program may wait for the answer before it writes the next.
        """
        from molspec.text.reactions import PEEKED_ROWS, column_of_reactions
        from molspec.text.tokens import is_tokens

        first = [cell.strip() for cell in "".join(self._peeked()).split("\t")]
        if tables.first_column(first[1:], _QUERY_COLUMNS) is not None:
            return True
        if task is None or len(first) < 2 or first[0].casefold() == _TITLE:
            return False
        found = column_of_reactions([(1, first)])
        if found is not None or is_tokens(first[0]):
            return bool(found)  # in the first column and without a header, it is read like SMILES
        peeked = iter(self._peeked(1 + PEEKED_ROWS))
        return column_of_reactions([*tables.split_cells(peeked, False, self.name)]) is not None

    def _of_lines(self, task: Task | None) -> Iterator[Query]:
        """Lines of SMILES, white space, name; an empty line is a query without text.

        Two atoms with a blank between them are tokens, or a molecule and its name: lines before
        them tell.
        """
        from molspec.text import plain_smiles
        from molspec.text.reactions import reaction_part
        from molspec.text.tokens import extension_of, is_tokens

        has_tokens: bool | None = None
        name_at: int | None = None  # of the columns behind SMILES, if a header names several
        for number, line in enumerate(self._lines):
            if self.form == _GIVEN:
                yield Query(without_other_extension(plain_smiles(line) + extension_of(line)))
                continue
            text, tab, more = _BAR.sub(" |", line, 1).partition("\t")
            joined, words = plain_smiles(text), text.split()
            are_joined = len(words) > 1 and joined == "".join(words)
            if are_joined and len(words) == 2 and not has_tokens and text.strip()[0] != "<":
                if has_tokens is None:
                    both, one, first = map(quoted, (" ".join(words), joined, words[0]))
                    fault = f"{both} may be {one}, or {first} and a name"
                    yield Query("", error=f"{fault}: expected {one}, or a tab before the name")
                    continue
                joined = text
            elif has_tokens is None and len(words) > 1 and not words[1].startswith("|"):
                has_tokens = are_joined
            smiles, name = (*f"{joined}{tab}{more}".split(maxsplit=1), "", "")[:2]
            has_brackets = not tab and _BRACKETS.fullmatch(name)
            behind = [] if tab else name.split()  # tokens, or a name such as "lot # 3"
            if has_brackets or (set(behind) & _PUNCTUATION and is_tokens(behind[0])):
                fault = f"{quoted(line.strip())} has tokens behind a blank: expected SMILES, or a"
                yield Query("", error=f"{fault} token a word, or a tab before the name")
            elif not tab and _COORDINATES.match(name):
                yield Query("", error=f"{quoted(line.strip())} has coordinates: expected SMILES")
            elif not number and _TITLE in smiles.casefold():
                name_at = _name_column(_words(line)[1:])
            else:
                if name_at is not None:
                    name = tables.cell_at(more.split("\t") if tab else name.split(), name_at)
                smiles = reaction_part(smiles, task) + extension_of(text)
                yield Query(without_other_extension(smiles), name.strip())

    def _of_texts(self) -> Iterator[Query]:
        """Lines of a model of learned pieces: a query, with the blanks around it, tab, name."""
        for line in self._lines:
            text, tab, name = line.rstrip("\r\n").partition("\t")
            if not tab and len(text.split()) > 1:
                fault = f"{quoted(text)} may be a query with blanks, or a query and its name"
                yield Query("", error=f"{fault}: expected a tab behind the query")
            else:
                yield Query(text, name.strip())

    def _of_reactions(self, task: Task | None) -> Iterator[Query]:
        from molspec.text.reactions import reaction_part
        from molspec.text.rxn import read_rxn

        for reaction, title in read_rxn(self._lines):
            error = None if reaction else "not a reaction to RDKit"
            yield Query(reaction_part(reaction, task), title, error=error)

    def _of_table(
        self,
        column: str | None,
        name_column: str | None,
        task: Task | None,
        copied: Sequence[str] = (),
        optional: Sequence[str] = (),
    ) -> Iterator[Query]:
        from molspec.text.reactions import Column, read_table

        # A model of learned pieces may have been trained with blanks around its queries.
        rows = tables.split_cells(self._lines, self.form == "csv", self.name, keep_blanks=True)
        query = query_column(column, task, self._called("column"))
        others = [
            Column(self._called("id_column"), name_column, tables.NAME_COLUMNS),
            *(Column(self._called("copy_column"), name) for name in copied),
            *([Column("", usual=optional)] if optional else []),
        ]
        _, found = read_table(self.name, rows, [query], others, task)
        return (
            Query(without_other_extension(query), name, columns=tuple(more))
            for query, name, *more in found
        )

    def _called(self, option: str) -> str:
        return self.options.get(option, option)

    def count(self) -> int | None:
        """About how many queries there are; None if the file cannot be read twice."""
        path = Path(self.name)
        if self.form == _GIVEN or self.name == STANDARD or not path.is_file():
            return None
        with tables.open_lines(path, records=self.form in _RECORDS) as lines:
            if self.form == "sdf":
                return sum(map(is_end, lines))
            if self.form == "smi":
                return sum(1 for _ in lines)
            if self.form == "rxn":
                return sum(line.startswith("$RXN") for line in lines)
            return max(0, sum(1 for _ in tables.split_cells(lines, self.form == "csv", path)) - 1)


def query_column(column: str | None, task: Task | None, option: str = "column") -> Column:
    """The column of a table's queries: `column`, or one that its names or the task decide.

    option: the name of the option that names it, for errors.
    """
    from molspec.text.reactions import Column

    # A column `source` may be where a molecule is from.
    keys = _KEY_COLUMNS if task is None else ()  # of a stock
    usual = (*_QUERY_COLUMNS, *COLUMNS[task][0], *keys, "source")
    return Column(option, column, usual, needed=True)


def _name_column(header: Sequence[str]) -> int | None:
    """The column of identifiers behind SMILES; None if all that follows is the name."""
    if len(header) < 2:
        return None
    known = tables.first_column(header, tables.NAME_COLUMNS)
    likely = (index for index, name in enumerate(header) if _ID.search(name))
    return next(likely, 0) if known is None else known


def _words(line: str) -> list[str]:
    """What tabs separate in a line, or white space if it has no tab."""
    return [word.strip() for word in line.split("\t")] if "\t" in line else line.split()


@contextmanager
def open_source(
    name: str | None, form: str | None = None, given: Iterable[str] = ()
) -> Iterator[QueryFile]:
    """Open a file, plain, .gz or .xz, or standard input; its name's ending decides the format.

    name: None if the queries are `given` and not in a file.

    Raises OSError if the file cannot be read, UsageError if standard input is closed.
    """
    if name is None:
        # No SMILES has bytes that are not UTF-8.
        texts = (os.fsencode(text).decode("utf-8", "replace") for text in given)
        yield QueryFile("the arguments", _GIVEN, texts)
    elif name == STANDARD:
        if sys.stdin is None:
            raise UsageError("--input is -: standard input is closed")
        stdin = sys.stdin.fileno()
        form = form or "smi"
        with open(stdin, "rb", closefd=False) as data:
            yield QueryFile(
                name, form, tables.read_lines(data, "standard input", records=form in _RECORDS)
            )
    else:
        form = form or input_format(name) or "smi"
        with tables.open_lines(Path(name), records=form in _RECORDS) as lines:
            yield QueryFile(name, form, lines)


class QueryFiles:
    """Files of queries that are open, in their order."""

    def __init__(self, files: Sequence[QueryFile]) -> None:
        self._files = files
        self.name = ", ".join(file.name for file in files)
        #: Whether the queries are not in a file.
        self.are_given = files[0].form == _GIVEN

    def queries(self, *arguments: Any, **options: Any) -> Iterator[Query]:
        """The queries of all files, each read as by `QueryFile.queries`.

        Raises ValueError, before the first query, if a file has no such column.
        """
        return chain.from_iterable([file.queries(*arguments, **options) for file in self._files])

    def count(self) -> int | None:
        """About how many queries there are; None if a file cannot be read twice."""
        counts = [file.count() for file in self._files]
        return None if None in counts else sum(filter(None, counts))


@contextmanager
def open_sources(
    names: Sequence[str] | None, form: str | None = None, given: Iterable[str] = ()
) -> Iterator[QueryFiles]:
    """Open files, or the `given` queries if there are none, as `open_source` does."""
    every: Sequence[str | None] = names or [None]
    with ExitStack() as opened:
        files = (open_source(name, form, given) for name in every)
        yield QueryFiles([opened.enter_context(file) for file in files])


def input_format(name: str) -> str | None:
    """The format of a file of queries by its name's ending; None if that is unknown."""
    path = Path(name.lower())
    ending = (path.with_suffix("") if path.suffix in tables.COMPRESSED else path).suffix
    return next((form for form, known in INPUT_FORMATS.items() if ending in known), None)
