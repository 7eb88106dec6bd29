"""SMILES to ids and back, for peers that must not load molspec and torch."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

#: Schwaller et al. 2018, the atomwise tokens.
_TOKEN = re.compile(
    r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>|\*|\$|%\d\d|\d"
)


class Text:
    """The vocabulary of a converted model, read from molspec's `vocabulary.json`."""

    def __init__(self, folder: Path) -> None:
        values = json.loads((folder / "vocabulary.json").read_text())
        self.tokens: list[str] = values["tokens"]
        self.pad_id: int = values["pad_id"]
        self.bos_id: int = values["bos_id"]
        self.eos_id: int = values["eos_id"]
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def knows(self, query: str) -> bool:
        """Whether the vocabulary has all tokens of a query."""
        return all(token in self._ids for token in _TOKEN.findall(query))

    def source(self, query: str) -> list[int]:
        """Ids of a query with BOS and EOS."""
        return [self.bos_id, *(self._ids[token] for token in _TOKEN.findall(query)), self.eos_id]

    def target(self, token_ids: Iterable[int]) -> str:
        """Text of an answer up to its EOS."""
        tokens = []
        for token_id in token_ids:
            if token_id == self.eos_id:
                break
            if token_id not in (self.pad_id, self.bos_id):
                tokens.append(self.tokens[token_id])
        return "".join(tokens)

    def padded(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Sources padded on the right to one length."""
        longest = max(map(len, sources))
        return [[*source, *[self.pad_id] * (longest - len(source))] for source in sources]
