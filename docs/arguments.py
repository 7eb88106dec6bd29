"""Arguments in docstrings, `name: what it is`, as lists in the API reference."""

import re
from typing import Any

import griffe

_ARGUMENT = re.compile(r"^(\w+(?:(?:,| and) \w+)*): ", re.MULTILINE)


class Arguments(griffe.Extension):
    """Rewrites every docstring that the reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make a list of each paragraph that begins with an argument."""
        if obj.docstring is not None:
            obj.docstring.value = as_lists(obj.docstring.value)


def as_lists(text: str) -> str:
    """A docstring whose arguments are entries of lists."""
    return "\n\n".join(
        _ARGUMENT.sub(r"- **\1:** ", each) if _ARGUMENT.match(each) else each
        for each in text.split("\n\n")
    )
