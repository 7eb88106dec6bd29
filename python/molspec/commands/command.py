"""Commands made of functions, whose parameters are flags."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click

from molspec.common.console import UsageError, one_line_errors
from molspec.common.fields import checked, choices, hints

#: What a setting is, in an error. What is said of a file with an option's name is another text.
_VALUE = re.compile(r"['\"\[({.\d-]|(True|False|None|inf|nan|a model of)\b")


def argument(help: str, default: Any = MISSING, *, metavar: str = "") -> Any:  # noqa: A002
    """The default of a command's parameter that is given by its place."""
    about = {"help": help, "metavar": metavar, "is_argument": True}
    return field(default=default, metadata=about)


@contextmanager
def extra(command: str, name: str) -> Iterator[None]:
    """Turn a failed import into a UsageError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"{command} needs the extra {name!r}, {error}: pip install 'molspec[{name}]'"
        ) from error


@dataclass(frozen=True)
class Given:
    """Annotates a parameter that gets the given flags of a dataclass' fields, by name.

    names: of the fields that have flags; all with a plain value by default.
    """

    kind: type[Any]
    names: tuple[str, ...] = ()


class Command(click.Command):
    """A command that describes its arguments, and refuses an option given twice.

    Otherwise the last value would count, and the others be lost without a word.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError that names the option."""
        try:
            *_, order = self.make_parser(ctx).parse_args(args=[*args])
        except click.NoSuchOption as error:
            from molspec.prediction.options import OURS

            name = error.option_name.strip("-").replace("-", "_")
            flags = {each.name: max(each.opts, key=len) for each in self.params}
            meant = flags.get(OURS.get(name, name), "")
            if not meant.startswith("--"):
                raise
            raise UsageError(f"{error.message} Did you mean {meant!r}?") from error
        for given, count in Counter(order).items():
            if count > 1 and given.param_type_name == "option" and not given.multiple:
                raise UsageError(f"{given.opts[0]} is given {count} times: expected it once")
        ctx.obj = [*args]
        with self._naming_as_typed(ctx.obj):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the function. Each error of the command's user becomes one line and a status."""
        with one_line_errors(), self._naming_as_typed(ctx.obj):
            return super().invoke(ctx)

    @contextmanager
    def _naming_as_typed(self, words: Sequence[str]) -> Iterator[None]:
        """Name the option in a user's error as it was typed: -n, which Python calls n_best.

        Each ValueError is one.
        """
        try:
            yield
        except (UsageError, ValueError) as error:
            name, verb, rest = str(error).partition(" is ")
            typed = [word.partition("=")[0] for word in words]
            for each in self.params if _VALUE.match(rest) else ():
                if name in (each.name, *(flag.strip("-").replace("-", "_") for flag in each.opts)):
                    shown = next((word for word in typed if word in each.opts), name)
                    raise UsageError(f"{shown}{verb}{rest}") from error
            raise UsageError(str(error)) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options."""
        arguments = [each for each in self.params if isinstance(each, _Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([each.shown for each in arguments])
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    """An argument with a name and a description for the help."""

    shown = "", ""


class _Value(click.ParamType[Any]):
    """Reads a text as the value of a setting. Raises ValueError that names the setting."""

    def __init__(self, name: str, hint: Any, about: Mapping[str, Any]) -> None:
        self.name, self._hint, self._about = name, hint, about
        self._kinds = get_args(hint) or (hint,)

    @property
    def metavar(self) -> str:
        """What the help calls the value."""
        kinds = {int: "N", float: "X", Path: "PATH"}
        named = (kinds[kind] for kind in self._kinds if kind in kinds)
        return self._about["metavar"] or "|".join(choices(self._hint)) or next(named, "TEXT")

    def convert(self, value: str, *_: Any) -> Any:
        """The value, checked."""
        read: Any = value
        with suppress(ValueError):  # the check names it
            read = next((kind for kind in (int, float) if kind in self._kinds), str)(value)
        read = checked(self.name, read, self._hint, self._about)
        return Path(read) if Path in self._kinds else read


@dataclass(frozen=True)
class _Flag:
    """A setting as a parameter of the command line."""

    name: str
    hint: Any
    setting: Field[Any]
    #: Whether its value is only wanted if it is given, so that the help names no default.
    is_given: bool = False

    def parameter(self) -> click.Parameter:
        """The parameter, whose value is None or empty if it is not given."""
        about, default = self.setting.metadata, self.setting.default
        hint = self.hint
        kinds = (hint,) if get_origin(hint) is list else get_args(hint) or (hint,)
        many = next((kind for kind in kinds if get_origin(kind) is list), None)
        reader = _Value(self.name, get_args(many)[0] if many else hint, about)
        required = default is MISSING and not self.is_given
        if "is_argument" in about:
            shown = about["metavar"] or self.name.upper()
            metavar = shown if required else f"[{shown}]"
            argument = _Argument(
                [self.name],
                required=required,
                type=reader,
                nargs=-1 if many else 1,
                metavar=f"{metavar}..." if many else metavar,
            )
            argument.shown = shown, about["help"]
            return argument
        name = "--" + self.name.replace("_", "-")
        shape: dict[str, Any] = {"type": reader, "metavar": reader.metavar}
        if bool in kinds:
            shape = {"is_flag": True, "default": None}
            name = name if default is False else f"{name}/--no-{name[2:]}"
        has_default = not (self.is_given or bool in kinds or default in (None, "", MISSING))
        return click.Option(
            [self.name, *(about["flags"] or [name])],
            required=required,
            multiple=bool(many or about["joint"]),
            help=about["help"] + (f"  [default: {default}]" if has_default else ""),
            **shape,
        )

    def read(self, given: Any) -> Any:
        """The value of what the parser gives; None if nothing was given."""
        if not isinstance(given, tuple):
            return given
        joint = self.setting.metadata.get("joint")
        return (joint.join(given) if joint else [*given]) if given else None


def command(run: Callable[..., int | None]) -> Command:
    """A command made of a function, which has its name and its docstring.

    A parameter is an `argument`, a `molspec.common.fields.setting`, a dataclass of settings, or a
    dictionary annotated with `Given`. They are passed by name; the function returns the status.
    """
    types = get_type_hints(run, include_extras=True)
    parts = {
        name: _part(name, types[name], each.default)
        for name, each in inspect.signature(run).parameters.items()
    }

    def called(**given: Any) -> int | None:
        values = {}
        for name, (flags, make) in parts.items():
            read = ((flag.name, flag.read(given[flag.name])) for flag in flags)
            values[name] = make(**{key: value for key, value in read if value is not None})
        return run(**values)

    return Command(
        run.__name__.removesuffix("_command").replace("_", "-"),
        params=[flag.parameter() for flags, _ in parts.values() for flag in flags],
        callback=called,
        help=inspect.getdoc(run),
    )


def _part(name: str, hint: Any, default: Any) -> tuple[list[_Flag], Callable[..., Any]]:
    """The flags of a function's parameter, and what makes its value of theirs."""
    if isinstance(hint, type) and is_dataclass(hint):
        kinds = hints(hint)
        return [_Flag(each.name, kinds[each.name], each) for each in fields(hint)], hint
    given = next(iter(getattr(hint, "__metadata__", ())), None)
    if not isinstance(given, Given):
        return [_Flag(name, hint, default)], lambda **read: read.get(name, default.default)
    names = given.names or [each.name for each in fields(given.kind) if "flags" in each.metadata]
    kind: Any = given.kind
    kinds = hints(kind)
    flags = [_Flag(e.name, kinds[e.name], e, True) for e in fields(kind) if e.name in names]
    return flags, dict
