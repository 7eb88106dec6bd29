"""`python bench/gpu/pack.py make PACK FOLDER...` or `unpack PACK FOLDER`: data that travel.

A pack is one file of a tenth of their size: xz over ids of a byte, the spellings of a reaction side
by side. It holds the folders that `molspec prepare` wrote as one, of at most 254 tokens.
"""

import json
import lzma
import sys
from pathlib import Path

import numpy as np
import torch

from molspec.text import Vocabulary
from molspec.training import prepared
from molspec.training.prepared import EncodedPairs, Prepared

#: Bytes that end a source and a target; ids are less.
_SOURCE_END, _TARGET_END = 0xFF, 0xFE
#: Bytes of the number that comes first: the length of the description.
_NUMBER = 8
#: Spellings of one reaction repeat far back; ids are bytes without alignment.
_FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": 1 << 27,
        "lc": 4,
        "pb": 0,
    }
]


def make(pack: Path, folders: list[Path]) -> None:
    """Pack folders; raises ValueError if an id needs more than a byte."""
    data = prepared.read_together(folders)
    if data.vocabulary.size > _TARGET_END:
        raise ValueError(
            f"the vocabulary has {data.vocabulary.size} tokens: expected at most {_TARGET_END}"
        )
    parts = {split: _packed(getattr(data, split)) for split in prepared.SPLITS}
    description = {
        "bytes": {split: len(part) for split, part in parts.items()},
        "vocabulary": data.vocabulary.to_json(),
        "description": data.description,
        "fingerprint": data.fingerprint,
    }
    head = json.dumps(description).encode()
    raw = b"".join((len(head).to_bytes(_NUMBER, "little"), head, *parts.values()))
    pack.write_bytes(lzma.compress(raw, filters=_FILTERS))
    print(f"{len(data.train)} pairs, {pack.stat().st_size} bytes")


def unpack(pack: Path, folder: Path) -> None:
    """Write the folder; raises ValueError if the pack is damaged."""
    raw = lzma.decompress(pack.read_bytes())
    begin = _NUMBER + int.from_bytes(raw[:_NUMBER], "little")
    head = json.loads(raw[_NUMBER:begin])
    tables = {}
    for split in prepared.SPLITS:
        body = np.frombuffer(raw, np.uint8, head["bytes"][split], begin)
        begin += len(body)
        tables[split] = _unpacked(body)
    vocabulary = Vocabulary.from_json(head["vocabulary"])
    data = Prepared(vocabulary, description=head["description"], **tables)
    if data.fingerprint != head["fingerprint"]:
        raise ValueError(f"{pack}: damaged: its pairs are not those that were packed")
    folder.mkdir(parents=True)
    prepared.write(data, folder)
    print(f"{len(data.train)} pairs in {folder}", flush=True)


def _packed(table: EncodedPairs) -> bytes:
    """Each source and its end, then its target and its end."""
    lengths = np.stack([table.source_lengths.numpy(), table.target_lengths.numpy()], 1).ravel()
    made = np.empty(int(lengths.sum()) + len(lengths), np.uint8)
    ends = (lengths.astype(np.int64) + 1).cumsum() - 1
    is_id = np.ones(len(made), bool)
    is_id[ends] = False
    made[ends[0::2]], made[ends[1::2]] = _SOURCE_END, _TARGET_END
    of_source = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths + 1)
    made[is_id & of_source] = table.source_ids.numpy()
    made[is_id & ~of_source] = table.target_ids.numpy()
    return made.tobytes()


def _unpacked(body: np.ndarray) -> EncodedPairs:
    is_end = body >= _TARGET_END
    lengths = np.diff(np.flatnonzero(is_end), prepend=-1).astype(np.int32) - 1
    ids = body[~is_end].astype(np.int16)
    of_source = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
    columns = (ids[of_source], lengths[0::2].copy(), ids[~of_source], lengths[1::2].copy())
    return EncodedPairs(*map(torch.from_numpy, columns))


if __name__ == "__main__":
    action, packed, *others = sys.argv[1:]
    if action == "make":
        make(Path(packed), [Path(folder) for folder in others])
    elif action == "unpack" and len(others) == 1:
        unpack(Path(packed), Path(others[0]))
    else:
        sys.exit(__doc__)
