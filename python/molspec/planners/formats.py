"""Plans as text for people, as JSON, and as a page of drawings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from html import escape

from molspec.files import Format, OutputContext, report
from molspec.files.lines import one_line
from molspec.planners.routes import Plan, Route

#: Pixels of a drawing; the page scales it.
_TARGET_SIZE, _MOLECULE_SIZE = (320, 220), (220, 150)


def text(plan: Plan, context: OutputContext) -> str:
    """The target, then its routes below each other."""
    lines = ["  ".join(filter(None, map(one_line, (plan.query.smiles, plan.query.name))))]
    lines.append(f"   {_summary(plan)}")
    for rank, route in enumerate(plan.routes, start=1):
        if route.steps:
            lines.append(f"   route {rank}: {_title(route)}")
        for step in route.steps:
            percent = 100 * math.exp(step.log_prob)
            lines.append(f"      {percent:5.1f} %  {step.reaction}")
        if route.steps:
            bought = (_named(leaf, plan) for leaf in route.leaves)
            lines.append(f"      to buy  {'  '.join(bought)}")
    return "\n".join(lines) + "\n"


def _named(smiles: str, plan: Plan) -> str:
    name = plan.names.get(smiles)
    return f"{smiles} ({one_line(name)})" if name else smiles


def jsonl(plan: Plan, context: OutputContext) -> str:
    """One object a line."""
    return json.dumps(plan.to_json()) + "\n"


def head(context: OutputContext) -> str:
    """Everything of the page before the first target."""
    about = (
        f"{context.about} A percentage is the probability that the model gives to reactants, of a "
        "route the product over its steps, not that the reactions work."
    )
    return report.page_head(f"Routes: {context.model}", about)


def section(plan: Plan, context: OutputContext) -> str:
    """A target and its routes, every molecule drawn."""
    parts = [
        '<section><div class="query">',
        f"<h2>{escape(one_line(plan.identifier))}</h2>",
        '<span class="label">target</span>',
        *report.drawn(plan.query.smiles, _TARGET_SIZE),
        f'<p class="{"error" if plan.error else "note"}">{escape(_summary(plan))}</p></div>',
        '<div class="routes">',
    ]
    for rank, route in enumerate(plan.routes, start=1):
        if route.steps:
            parts.append(f"<h3>Route {rank}: {_title(route)}</h3>")
            parts += _drawn_steps(route, plan)
    return "\n".join([*parts, "</div></section>\n"])


def _drawn_steps(route: Route, plan: Plan) -> Iterator[str]:
    leaves = set(route.leaves)
    for number, step in enumerate(route.steps, start=1):
        percent = 100 * math.exp(step.log_prob)
        yield f'<div class="step"><span class="label">step {number}, {percent:.1f} %</span>'
        yield '<ol class="answers">'
        for molecule in (step.product, *step.reactants):
            kind = "product" if molecule == step.product else "to buy" if molecule in leaves else ""
            name = one_line(plan.names.get(molecule, "")) if kind == "to buy" else ""
            label = escape(f"{kind or 'to make'}{name and ': '}{name}")
            yield f'<li><span class="label">{label}</span>'
            yield from report.drawn(molecule, _MOLECULE_SIZE)
            yield "</li>"
        yield "</ol></div>"


def _summary(plan: Plan) -> str:
    if plan.error is not None:
        return f"error: {plan.error}"
    asked = f"{plan.expansions} molecules asked in {plan.seconds:.2f} s"
    if plan.is_in_stock:
        return "in stock" + "".join(f" as {one_line(name)}" for name in plan.names.values())
    if plan.first_seconds is None:
        return f"no route found, {asked}"
    count = len(plan.routes)
    return f"{count} route{'s' * (count > 1)}, the first after {plan.first_seconds:.2f} s, {asked}"


def _title(route: Route) -> str:
    count = len(route.steps)
    percent = 100 * math.exp(route.log_prob)
    return f"{count} step{'s' * (count > 1)}, {percent:.2g} %"


FORMATS: dict[str, Format[Plan]] = {
    "text": Format(text, (".txt",)),
    "jsonl": Format(jsonl, (".jsonl", ".ndjson")),
    "html": Format(section, (".html", ".htm"), head, report.foot, report.check),
}
