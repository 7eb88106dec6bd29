"""Reads queries for a model: text to token ids, or an error."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from molspec.common.console import prefixing, quoted
from molspec.common.task import Task
from molspec.decoding import Source
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary, aligned, smiles, tokens

#: What an error of a target's length says before it, and of its limit.
_OF_TARGET = ("target: ", "the model's longest target")
#: Maximum tokens of a spelling, with hydrogens and atom maps, for each token of the canonical form.
_LONGEST_SPELLING = 4
#: Tokens of a target's spellings that a pass decodes, which is below a second.
_MOST_TOGETHER = 4096
#: Other spellings of a query, and of a reactant, that are compared.
_MOST_OTHERS = 63


class QueryReader:
    """Reads queries for one model. Methods raise ValueError, naming the fault of a query."""

    def __init__(
        self,
        spec: ModelSpec,
        vocabulary: Vocabulary,
        template: str | None = None,
        task: Task | None = None,
    ) -> None:
        self.spec = spec
        self.vocabulary = vocabulary
        #: Whether queries are SMILES alone, not words of learned pieces.
        self.reads_smiles = vocabulary.atomwise or template is not None
        self._template = template or "{}"
        self._writes_reactants = task == "retro" and self.reads_smiles
        self._begin, self._end = spec.source_frame(vocabulary.bos_id, vocabulary.eos_id)
        self._longest = spec.max_positions - len(self._begin) - len(self._end)
        bos_id = vocabulary.bos_id if spec.target_bos else None
        self._target_begin = [] if bos_id is None else [bos_id]
        self._longest_target = spec.max_positions - 1 - len(self._target_begin)

    def source(self, query: str, canonical: bool = False) -> Source:
        """The text to decode: the query's canonical SMILES, or the query unchanged."""
        return self._read(query, canonical)[1]

    def _read(self, query: str, canonical: bool) -> tuple[tuple[str, str, str], Source]:
        """The text to decode, as SMILES between marks, and its ids."""
        before, text, after = self._parts(query)
        if canonical:
            text = self._canonical(text)
        if ">" in self._template and ">" in text:
            raise ValueError(
                "'>' in it: expected reactants and reagents joined by dots; the model reads them "
                f"as {self._template}"
            )
        ids = self._encode(f"{before}{text}{after}", query)
        _check_length(len(ids), self._longest)
        if self.reads_smiles and not canonical:
            smiles.check_sides(smiles.sides_of(text))
        return (before, text, after), Source(ids, [*self._begin, *ids, *self._end])

    def canonical(self, query: str) -> str:
        """The query's canonical SMILES, between its marks."""
        before, text, after = self._parts(query)
        return f"{before}{self._canonical(text)}{after}"

    def _parts(self, query: str) -> tuple[str, str, str]:
        """The SMILES, and the model's marks before and after it, without blanks between them."""
        before, text, after, marks = "", query, "", self.vocabulary.marks
        for _ in range(self._longest if marks and isinstance(query, str) else 0):
            text = text.strip()
            if text.startswith(marks):
                mark = next(filter(text.startswith, marks))
                before, text = before + mark, text.removeprefix(mark)
            elif text.endswith(marks):
                mark = next(filter(text.endswith, marks))
                after, text = mark + after, text.removesuffix(mark)
            else:
                break
        return before, self._text(text), after

    def _canonical(self, text: str) -> str:
        # The length first: RDKit's time grows with the square of the depth of nested branches.
        count = len(tokens.tokenize(text))
        if count > _LONGEST_SPELLING * self._longest:
            _check_length(count, self._longest)
        return smiles.canonical_sides(smiles.sides_of(text))

    def views(self, query: str, canonical: bool, count: int) -> list[Source]:
        """The query, and those of its other spellings that the model can read."""
        (before, text, after), source = self._read(query, canonical)
        views = [source]
        if count > 1:
            for other in smiles.other_spellings(text, count - 1):
                with suppress(ValueError):
                    views.append(self.source(f"{before}{other}{after}"))
        return views

    def molecule(self, target: str) -> str | None:
        """A target's canonical SMILES, which has other spellings; None if it is not a molecule.

        Raises ValueError if it has too many tokens both as it is given and in this form.
        """
        try:
            text = smiles.check_text(target).strip(" .")  # with atom maps, and a last dot
        except ValueError:
            return None
        given, longest = tokens.count_tokens(text), self._longest_target
        atomwise = self.vocabulary.atomwise
        if atomwise and given > _LONGEST_SPELLING * longest:
            return None  # too long as it is given
        if (molecule := smiles.canonicalise(text)) is not None and atomwise:
            _check_length(min(given, tokens.count_tokens(molecule)), longest, *_OF_TARGET)
        return molecule

    def pair(self, query: str, target: str, canonical: bool) -> Source:
        """A query with a given target, for forced decoding."""
        return replace(self.source(query, canonical), token_ids=self._target_ids(target))

    def pairs(self, query: str, targets: Iterable[str], canonical: bool) -> list[Source]:
        """A query with those of several targets that the model can read, for forced decoding.

        A source has those that one pass decodes, with EOS between them.
        """
        source = self.source(query, canonical)
        several: list[list[int]] = []
        for target in targets:
            with suppress(ValueError):
                ids = self._target_ids(target)
                if several and len(several[-1]) + len(ids) < _MOST_TOGETHER:
                    several[-1] += [self.vocabulary.eos_id, *ids]
                else:
                    several.append(ids)
        return [replace(source, token_ids=ids) for ids in several]

    def prefixed(
        self, query: str, canonical: bool, count: int, prefix: str, max_length: int
    ) -> list[Source]:
        """The views of a query whose answers begin with a text, or have a molecule as a reactant.

        Then `count` spellings of both, those that are the most alike at their beginnings.
        """
        if not self._writes_reactants:
            ids = self._target_ids(prefix, max_length)
            return [replace(view, prefix=ids) for view in self.views(query, canonical, count)]
        (before, text, after), _ = self._read(query, canonical)
        texts = [text, *(smiles.other_spellings(text, _MOST_OTHERS) if canonical else ())]
        reactant = self._reactant(prefix)
        reactants = [reactant, *smiles.other_spellings(reactant, _MOST_OTHERS)]
        views: list[Source] = []
        for spelt, reactant in aligned.spelt_alike(texts, reactants):
            if len(views) == count:
                break
            with suppress(ValueError):
                ids = self._target_ids(f"{reactant}.", max_length)
                views.append(replace(self.source(f"{before}{spelt}{after}"), prefix=ids))
        return views

    def check_prefix(self, prefix: str, max_length: int) -> None:
        """Raise ValueError, naming target_prefix, unless answers can begin with it."""
        with prefixing(f"target_prefix is {quoted(prefix)}: "):
            text = f"{self._reactant(prefix)}." if self._writes_reactants else prefix
            self._target_ids(text, max_length)
            if self.reads_smiles and not self._writes_reactants:  # a reactant is a molecule
                for side in filter(None, self._text(text, last_dot=True).split(">")):
                    smiles.check_beginning(side)

    def _reactant(self, prefix: str) -> str:
        """The canonical SMILES of one molecule."""
        reactant = self.canonical(prefix.strip(" ."))
        for sign in ">.":
            if sign in reactant:
                raise ValueError(f"{sign!r} between molecules: expected one molecule")
        return reactant

    def _target_ids(self, target: str, max_length: int | None = None) -> list[int]:
        """The ids of a target; with max_length those of a text that targets begin with."""
        (where, limit), longest = _OF_TARGET, self._longest_target
        if max_length is not None:
            longest += max_length - self.spec.max_positions
            where, limit = "", f"fewer than max_length {max_length}"
        with prefixing(where):
            ids = self.vocabulary.encode(self._text(target, last_dot=max_length is not None))
        _check_length(len(ids), longest, where, limit)
        return [*self._target_begin, *ids]

    def _text(self, given: str, last_dot: bool = False) -> str:
        """Its text, without a last dot unless that counts.

        Learned pieces may be words, and blanks around them count.
        """
        text = smiles.check_text(given)
        if not self.reads_smiles:
            return given.strip("\r\n")
        smiles.check_notation(text)
        return f"{text}." if last_dot and given.rstrip().endswith(".") else text

    def _encode(self, text: str, query: str) -> Sequence[int]:
        try:
            return self.vocabulary.encode(self._template.replace("{}", text))
        except ValueError as error:
            if text == query:
                raise
            raise ValueError(f"{error}, read as {quoted(text)}") from error


def _check_length(
    token_count: int, longest: int, where: str = "", limit: str = "the model's longest source"
) -> None:
    if token_count > longest:
        raise ValueError(f"{where}{token_count} tokens: expected at most {longest}, {limit}")
