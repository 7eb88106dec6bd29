"""Settings that describe themselves: each field of a dataclass has its help and its bounds.

Flags of the command line, the body of a request and the page of options are made of them.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sized
from dataclasses import Field, field, fields
from functools import lru_cache, partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from molspec.common.console import quoted


def setting(
    default: Any,
    help: str = "",  # noqa: A002 - the usual name
    *,
    more: str = "",
    group: str = "",
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    flags: tuple[str, ...] = (),
    joint: str = "",
    metavar: str = "",
    http: bool = False,
) -> Any:
    """A field of a dataclass, like `dataclasses.field`, or the default of a command's parameter.

    help: its description, in a line. more: further sentences.
    group: its heading.
    least, above, most: bounds of a number; without the first two, an integer is at least 1 and a
        float at least 0.
    flags: its names on the command line, if they differ from its own.
    joint: what joins its texts on the command line, where it may be repeated.
    metavar: what the command line's help calls its value, if not by its type.
    http: whether a request to the server may set it.
    """
    about = {"help": help, "more": more, "group": group, "flags": flags, "joint": joint}
    bounds = {"least": least, "above": above, "most": most}
    return field(default=default, metadata={**about, **bounds, "metavar": metavar, "http": http})


def wrong(name: str, value: object, expected: str) -> ValueError:
    """The error of a wrong value, as in "beam_size is 0: expected at least 1"."""
    return ValueError(f"{name} is {quoted(value)}: expected {expected}")


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, as its `object_pairs_hook`. Raises ValueError for a name that is twice."""
    if len(values := dict(pairs)) < len(pairs):
        [(name, count)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an object has {quoted(name)} {count} times: expected it once")
    return values


#: A setting that a request to the server may have too.
http_setting = partial(setting, http=True)


@lru_cache
def hints(kind: Hashable) -> Mapping[str, Any]:
    """Types of a dataclass's fields."""
    return get_type_hints(kind)


def choices(hint: Any) -> tuple[Any, ...]:
    """The choices of a field that allows only some values, without None."""
    kinds = get_args(hint) if get_origin(hint) is not Literal else (hint,)
    return tuple(value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind))


def check_fields(settings: object) -> None:
    """Check every field that is a number, a text, a choice or a bool; NumPy's numbers are accepted.

    Raises ValueError that names the field, the value and what was expected.
    """
    kind: Any = type(settings)
    values = vars(settings)
    for name, default, each, hint in _checked(kind):
        value = values[name]
        if value is not default:  # the default is valid, and the usual value
            object.__setattr__(settings, name, checked(name, value, hint, each.metadata))


@lru_cache
def _checked(kind: Any) -> list[tuple[str, Any, Field[Any], Any]]:
    return [(each.name, each.default, each, hints(kind)[each.name]) for each in fields(kind)]


def checked(name: str, value: Any, hint: Any, about: Mapping[str, Any]) -> Any:
    """The value of a setting, a NumPy number as Python's.

    Raises ValueError that names the setting, the value and what was expected.
    """
    kinds = get_args(hint) or (hint,)
    if value is None and NoneType in kinds:
        return value
    if known := choices(hint):
        if value not in known:
            raise wrong(name, value, f"one of {', '.join(map(str, known))}")
    elif bool in kinds:
        if not isinstance(value, bool):
            expected = "True, False or None" if NoneType in kinds else "True or False"
            raise wrong(name, value, expected)
    elif int in kinds:
        least, most = about.get("least"), about.get("most")
        return check_count(name, value, most, 1 if least is None else int(least))
    elif float in kinds:
        above, most, least = (about.get(bound) for bound in ("above", "most", "least"))
        check_number(name, value, math.inf if most is None else most, above, least or 0)
        return float(value)  # equal settings have the same JSON values
    elif {*kinds} <= {str, NoneType} and not isinstance(value, str):
        raise wrong(name, value, "text")
    return value


def _is_number(value: Any) -> bool:
    """Whether it is a number that fits in a float."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def check_count(name: str, value: Any, most: float | None = 1000, least: int = 1) -> int:
    """The integer value of an option; NumPy's integers are accepted, a bool is not.

    Raises ValueError, naming the option, unless it is from `least` to `most`.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise wrong(name, value, f"a whole number of at least {least}")
    if most is not None and value > most:
        raise wrong(name, int(value), f"at most {most}")
    return int(value)


def check_one_each(name: str, items: Sized, others: Sized, of: str = "query") -> None:
    """Raise ValueError, naming the argument, unless it has as many items as the others."""
    if len(items) != len(others):
        raise ValueError(f"{name} has {len(items)} items: expected {len(others)}, one a {of}")


def check_counts(settings: object, **most: float | None) -> None:
    """Check integer fields of a frozen dataclass, given each field's maximum."""
    for name, limit in most.items():
        object.__setattr__(settings, name, check_count(name, getattr(settings, name), limit))


def check_number(
    name: str, value: Any, most: float = math.inf, above: float | None = None, least: float = 0
) -> None:
    """Raise ValueError, naming the option, unless its value is a number from `least` to `most`.

    above: an exclusive lower bound in place of `least`.
    """
    if _is_number(value) and value <= most and (value >= least if above is None else value > above):
        return
    if above is not None:
        expected = f"a number above {above:g}" + ("" if most == math.inf else f", at most {most:g}")
    elif most == math.inf:
        expected = f"a number of at least {least:g}"
    else:
        expected = f"a number from {least:g} to {most:g}"
    raise wrong(name, value, expected)


def differing(settings: object, group: str) -> list[Field[Any]]:
    """Fields of a group that differ from their defaults."""
    kind: Any = type(settings)
    values = vars(settings)
    return [
        each
        for each in _grouped(kind, group)
        if values[each.name] is not each.default and values[each.name] != each.default
    ]


@lru_cache
def _grouped(kind: Any, group: str) -> list[Field[Any]]:
    return [each for each in fields(kind) if each.metadata.get("group") == group]


def described(kind: type[Any]) -> str:
    """The part of a docstring that describes the fields."""
    return "\n".join(
        f"    {each.name}: {each.metadata['help']} {each.metadata['more']}".rstrip()
        for each in fields(kind)
    )
