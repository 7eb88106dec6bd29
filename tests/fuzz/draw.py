"""Values drawn from bytes: the same bytes give the same values; missing bytes give zeros."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")

_PIECES = (
    *("C", "c", "N", "n", "O", "o", "S", "s", "P", "F", "Cl", "Br", "I", "B", "b", "*", ".", ">"),
    *("(", ")", "[", "]", "=", "#", "-", "+", "/", "\\", ":", "~", "@", "@@", "%", "$", "1", "2"),
    *("3", "9", "0", "%10", "%99", "[nH]", "[C@H]", "[C@@]", "[N+]", "[O-]", "[13C]", "[CH3:1]"),
    *("[Na+]", "c1ccccc1", "C(=O)O", "((((", "))))", " ", "\t", "\n", "?", "<pad>", "<eos>", "é"),
    *("\ufffd", "\ud800", "\U0001f9ea", "\0", "[\ufffd\ufffd\ufffd]", "[C:999999999999]", "Xx"),
)
_UNUSUAL_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 8, 64, 65, 1024, 2**31 - 1, 2**31, 2**62, 10**30),
    *(0.0, -0.5, 1e-5, 1e308, float("nan"), float("inf"), "", "C", "relu", "\ud800", "0"),
    *([], {}, [[]], [None], ["C", "C"], {"0": 0}, [0, 1, 2]),
)


class Draw:
    """A reader of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def __bool__(self) -> bool:
        return self._next < len(self._data)

    def byte(self) -> int:
        self._next += 1
        return self._data[self._next - 1] if self._next <= len(self._data) else 0

    def below(self, count: int) -> int:
        return (self.byte() if count <= 256 else self.byte() << 8 | self.byte()) % count

    def choice(self, items: Sequence[_Item]) -> _Item:
        return items[self.below(len(items))]

    def bytes(self, count: int) -> bytes:
        self._next += count
        return self._data[self._next - count : self._next]

    def rest(self) -> bytes:
        return self.bytes(len(self._data))

    def some(self, max_count: int, item: Callable[[], _Item]) -> list[_Item]:
        return [item() for _ in range(self.below(max_count + 1))]

    def integer(self) -> int:
        """A mostly small integer, sometimes of up to 64 bits."""
        kind = self.byte()
        if kind < 200:
            return kind % 16
        if kind < 230:
            return -(kind % 5)
        return int.from_bytes(self.bytes(8), "little", signed=True)

    def text(self, max_count: int = 40) -> str:
        kind = self.below(4)
        if kind == 0:
            return self.bytes(self.below(max_count + 1)).decode("latin-1")
        if kind == 1:
            return self.bytes(self.below(max_count + 1)).decode("utf-8", "replace")
        return "".join(self.some(max_count, lambda: self.choice(_PIECES)))

    def unusual_value(self) -> Any:
        return self.choice(_UNUSUAL_VALUES)

    def damaged(self, content: bytes) -> bytes:
        """The content with bytes changed, removed, repeated or inserted in some places."""
        damaged = bytearray(content)
        for _ in range(1 + self.below(4)):
            position = int.from_bytes(self.bytes(3), "little") % (len(damaged) + 1)
            kind, count = self.below(5), 1 + self.below(8)
            if kind == 0:
                damaged[position : position + 1] = bytes([self.byte()])
            elif kind == 1:
                del damaged[position : position + count]
            elif kind == 2:
                damaged[position:position] = damaged[position : position + count]
            elif kind == 3:
                damaged[position:position] = self.bytes(count)
            else:
                del damaged[position:]
        return bytes(damaged)

    def changed(self, value: Any) -> Any:
        """A tree of containers with some value in it replaced, removed or added."""
        if isinstance(value, dict) and value and self.below(8):
            key = self.choice(list(value))
            if (kind := self.below(8)) == 0:
                return {name: part for name, part in value.items() if name != key}
            if kind == 1:
                return {**value, self.text(4): self.unusual_value()}
            return {**value, key: self.changed(value[key])}
        if isinstance(value, list | tuple) and value and self.below(8):
            index = self.below(len(value))
            parts = list(value)
            parts[index : index + 1] = self.some(2, lambda: self.changed(value[index]))
            return type(value)(parts) if type(value) in (list, tuple) else parts
        return self.unusual_value()

    def changed_json(self, content: bytes) -> bytes:
        return json.dumps(self.changed(json.loads(content))).encode()
