"""A summary for people to read."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from textwrap import wrap
from typing import Any

from molspec.evaluation.summary import Summary, share
from molspec.prediction.options import PredictOptions


def report(
    settings: Mapping[str, Any], summary: Summary, groups: Mapping[str, Summary] | None = None
) -> str:
    """Settings, accuracy and faults by rank, accuracy by group, costs and times.

    Lines have at most 100 columns, except for long names of groups.
    """
    by_group = [_groups(settings["group_column"], groups)] if groups else []
    parts = (_head(settings, summary), _ranks(summary), *by_group, _costs(summary))
    return "\n\n".join("\n".join(part) for part in parts)


def _head(settings: Mapping[str, Any], summary: Summary) -> Iterator[str]:
    drafter = dict(settings["drafter"])
    kind = drafter.pop("kind")
    where = f"{settings['device']}, {settings['dtype']}"
    yield f"model        {settings['model']}, {where}; molspec {settings['molspec']}"
    columns = f"{settings['query_column']} -> {settings['target_column']}"
    yield f"table        {settings['table']}, {columns}, from row {settings['offset'] + 1} on"
    search = ("beam", "n_best", "beam_size", "length_penalty", "finished")
    around = ("batch_size", "max_length", "merge_duplicates")
    yield f"search       {_named(settings, search)}"
    yield f"             {_named(settings, around)}"
    spelt = ("canonical_queries", "augmentations", "augment_below")
    yield f"queried      {_named(settings, spelt)}"
    shown = {*search, *around, *spelt, "drafter"}
    others = [
        each.name
        for each in fields(PredictOptions)
        if each.name not in shown and settings.get(each.name, each.default) != each.default
    ]
    yield from wrap(f"with         {_named(settings, others)}", 100) if others else ()
    yield f"drafter      {kind}{': ' if drafter else ''}{_named(drafter, tuple(drafter))}"
    yield f"queries      {summary.queries}; {summary.failed} failed; " + (
        f"{summary.excluded} with a target that is not a molecule, not counted for accuracy"
        if summary.excluded
        else "every target is a molecule"
    )


def _named(values: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {values[name]}" for name in names)


def _ranks(summary: Summary) -> Iterator[str]:
    yield "rank   accuracy to here   95 % interval   predictions   invalid   duplicate   unfinished"
    for number, rank in enumerate(summary.ranks, start=1):
        faults = (rank.invalid, rank.duplicate, rank.unfinished)
        invalid, duplicate, unfinished = (percent(share(n, rank.predictions)) for n in faults)
        interval = "-"
        if (ends := summary.interval(number)) is not None:
            interval = " to ".join(f"{100 * end:.1f}" for end in ends)
        yield (
            f"{number:4}   {percent(summary.accuracy(number)):>16}   {interval:>13}   "
            f"{rank.predictions:11}   {invalid:>7}   {duplicate:>9}   {unfinished:>10}"
        )


def _groups(name: str, groups: Mapping[str, Summary]) -> Iterator[str]:
    width = max(len(name), *map(len, groups))
    ranks = next(iter(groups.values())).accuracies
    yield f"{name:{width}}   queries" + "".join(f"{f'top-{rank}':>9}" for rank in ranks)
    for group, summary in sorted(groups.items(), key=_natural):
        shares = "".join(f"{percent(found):>9}" for found in summary.accuracies.values())
        yield f"{group:{width}}   {summary.queries:7}{shares}"


def _natural(item: tuple[str, Summary]) -> tuple[int, str]:
    """Sort numbers by size, before words."""
    return (int(item[0]), "") if item[0].isdecimal() else (sys.maxsize, item[0])


def _costs(summary: Summary) -> Iterator[str]:
    costs, times = summary.costs(), summary.times()
    yield (
        f"decoder      {number(costs['decoder_calls_per_query'])} calls a query, "
        f"{number(costs['nodes_per_query'])} nodes a query, "
        f"{number(costs['nodes_per_call'])} nodes a call"
    )
    yield (
        f"drafting     {percent(costs['accepted_per_emitted'])} of emitted tokens were drafted, "
        f"{percent(costs['accepted_per_drafted'])} of drafted ones were accepted"
    )
    yield (
        f"wall time    {number(times['seconds'])} s, "
        f"{milliseconds(times['seconds_per_query'])} ms a query; "
        f"the median query was under way for {milliseconds(times['median_query_seconds'])} ms"
    )


def percent(part: float | None) -> str:
    """Write a share of 1."""
    return "-" if part is None else f"{100 * part:.1f} %"


def number(value: float | None) -> str:
    """Write a number to a decimal."""
    return "-" if value is None else f"{value:.1f}"


def milliseconds(seconds: float | None) -> str:
    """Write seconds as milliseconds."""
    return number(None if seconds is None else 1e3 * seconds)
