"""Plans as text for people, as JSON, as trees, as a table, and as a page of drawings."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from molspec.files import Format, OutputContext, formats, report
from molspec.files.lines import copied, heading, one_line
from molspec.planners.routes import Plan, Route, Step

#: Columns of a table: a row a target, with its first route.
_FIRST = ("id", "target", "solved", "steps", "seconds", "score", "confirmed", "route")
COLUMNS = (*_FIRST, "buy", "count", "names", "prices", "note", "error")
#: Said of a reactant without a configuration that its product has.
_RACEMIC = "racemic or unspecified"
#: Said of a reactant with another one, where the step changes nothing.
_TURNED = "of another configuration"


def text(plan: Plan, context: OutputContext) -> str:
    """The target, then its routes below each other."""
    lines = [heading(plan)]
    lines.append(f"   {_summary(plan)}")
    for rank, route in enumerate(plan.routes, start=1):
        for each in (route, *route.alternatives) if route.steps else ():
            indent, known = ("", ()) if each is route else ("   ", route.steps)
            lines.append(f"{indent}   {'or' if known else f'route {rank}:'} {_title(each)}")
            lines += [f"{indent}      {line}" for line in _steps(each, plan, known)]
    return "\n".join(lines) + "\n"


def _steps(route: Route, plan: Plan, known: tuple[Step, ...]) -> Iterator[str]:
    """The steps of a route, but for those that are known, and the molecules to buy."""
    for number, step in enumerate(route.steps, start=1):
        if step not in known:
            marks = "".join(f"  {_RACEMIC}: {each}" for each in step.racemic)
            marks += "".join(f"  {_TURNED}: {each}" for each in step.turned)
            checked = f"  {step.check}" if step.check else ""
            share = 100 * math.exp(step.log_prob)
            yield f"{number:2}.  {share:5.1f} %  {step.reaction}{marks}{checked}"
    bought = ((leaf, _about(leaf, plan)) for leaf in route.leaves)
    yield "to buy  " + "  ".join(f"{leaf} ({about})" if about else leaf for leaf, about in bought)


def _about(smiles: str, plan: Plan) -> str:
    """The name and the price of a molecule to buy, and what is bought if it is another one."""
    price, bought = plan.prices.get(smiles), plan.bought.get(smiles)
    about = (plan.names.get(smiles), price and f"price {price}", bought and f"bought as {bought}")
    return one_line(", ".join(filter(None, about)))


def jsonl(plan: Plan, context: OutputContext) -> str:
    """One object a line."""
    columns = {"columns": copied(plan.query, context)} if context.copied_columns else {}
    return json.dumps({**plan.to_json(), **columns}) + "\n"


def trees(plan: Plan, context: OutputContext) -> str:
    """One object a line: the routes of a target as the trees that AiZynthFinder writes."""
    found = []
    for route in (each for entry in plan.routes for each in (entry, *entry.alternatives)):
        target = route.steps[-1].product if route.steps else route.target
        tree = _node(target, {step.product: step for step in route.steps})
        found.append({**tree, "scores": {"log_prob": route.log_prob}})
    every = plan.to_json()
    told = ("id", "target", "bought", "stopped", "missing", "error")
    about = {name: every[name] for name in told}
    return json.dumps({**about, "trees": found}) + "\n"


def _node(molecule: str, steps: Mapping[str, Step]) -> dict[str, Any]:
    """A molecule, with the reaction that makes it as its only child."""
    step = steps.get(molecule)
    node = {"type": "mol", "smiles": molecule, "in_stock": step is None, "is_chemical": True}
    if step is not None:
        reaction = {
            "type": "reaction",
            "smiles": f"{molecule}>>{'.'.join(step.reactants)}",  # as a retro step, like theirs
            "is_reaction": True,
            "metadata": {**asdict(step), "policy_probability": math.exp(step.log_prob)},
            "children": [_node(each, steps) for each in step.reactants],
        }
        node["children"] = [reaction]
    return node


def rows(plan: Plan, context: OutputContext) -> list[tuple[str, ...]]:
    """A target and its first route; score is its log_prob, count that of the molecules to buy."""
    steps = score = confirmed = route = ""
    sold = [""] * 4
    remarks = list(filter(None, (plan.note, _stopped(plan))))
    if plan.routes:
        best = plan.routes[0]
        remarks += plan.remarks(best)
        steps, score = str(len(best.steps)), repr(best.log_prob)
        confirmed = "" if best.confirmed is None else str(best.confirmed).lower()
        route = " ".join(step.reaction for step in best.steps)
        about = plan.names, plan.prices
        told = ["; ".join(each.get(leaf, "") for leaf in best.leaves) for each in about]
        sold = [".".join(best.leaves), str(len(best.leaves)), *told]
    first = (plan.identifier, plan.query.smiles, str(bool(plan.routes)).lower(), steps)
    last = (*sold, "; ".join(remarks), plan.error or "", *plan.query.columns)
    return [(*first, f"{plan.seconds:.3f}", score, confirmed, route, *last)]


def head(context: OutputContext) -> str:
    """Everything of the page before the first target."""
    about = (
        f"{context.about} A percentage is the probability that the model gives to reactants, of a "
        "route the product over its steps, not that the reactions work. Confirmed: a model of "
        "products gives the product among its three likeliest answers, with this probability."
    )
    return report.page_head(f"Routes: {context.model}", about)


def section(plan: Plan, context: OutputContext) -> str:
    """A target and its routes, every molecule drawn."""
    parts = [
        '<section><div class="query">',
        f"<h2>{escape(one_line(plan.identifier))}</h2>",
        '<span class="label">target</span>',
        *report.drawn(plan.query.smiles),
        f'<p class="{"error" if plan.error else "note"}">{escape(_summary(plan))}</p></div>',
        '<div class="routes">',
    ]
    for rank, route in enumerate(plan.routes, start=1):
        for each in (route, *route.alternatives) if route.steps else ():
            parts.append(f"<h3>{f'Route {rank}:' if each is route else 'or'} {_title(each)}</h3>")
            numbered = enumerate(each.steps, start=1)
            steps = {step.product: (number, step) for number, step in numbered}
            parts += _tree(each.steps[-1].product, steps, plan)
    return "\n".join([*parts, "</div></section>\n"])


def _tree(
    molecule: str, steps: Mapping[str, tuple[int, Step]], plan: Plan, marks: Sequence[str] = ()
) -> Iterator[str]:
    """A molecule, with an arrow from the trees of its reactants."""
    yield '<div class="tree">'
    made = molecule in steps
    if made:
        number, step = steps[molecule]
        yield '<div class="reactants">'
        for reactant in step.reactants:
            said = _RACEMIC * (reactant in step.racemic), _TURNED * (reactant in step.turned)
            yield from _tree(reactant, steps, plan, said)
        checked = f'<span class="label">{escape(str(step.check))}</span>' if step.check else ""
        yield f'</div><div class="arrow"><span class="label">step {number}</span>'
        share = f"{100 * math.exp(step.log_prob):.1f} %"
        yield f'<b>&rarr;</b><span class="label">{share}</span>{checked}</div>'
    about = _about(molecule, plan)
    labels = ["" if made else f"to buy{about and ': '}{about}", *marks]
    label = escape("; ".join(filter(None, labels)))
    yield f'<div class="molecule"><span class="label">{label}</span>'
    yield from report.drawn(molecule)
    yield "</div></div>"


def _summary(plan: Plan) -> str:
    return f"{plan.note}: {_found(plan)}" if plan.note else _found(plan)


def _found(plan: Plan) -> str:
    if plan.error is not None:
        return f"error: {plan.error}"
    work = f"{_count(plan.expansions, 'molecule')} expanded in {plan.seconds:.2f} s"
    if plan.is_in_stock:
        sold = {**plan.names, **plan.prices, **plan.bought}
        return "in stock" + "".join(f" ({_about(it, plan)})" for it in sold)
    if not plan.routes:
        return f"no route found, {work}{': ' * bool(plan.stopped)}{_stopped(plan)}"
    least = f" of at least {100 * plan.min_share:g} % of the likeliest one's probability"
    first = "" if plan.first_seconds is None else f", the first after {plan.first_seconds:.2f} s"
    return f"{_count(len(plan.routes), 'route')}{least if plan.min_share else ''}{first}, {work}"


def _stopped(plan: Plan) -> str:
    """Why there is no route, and the molecules that the best attempt lacked."""
    missing = f"not in stock: {', '.join(plan.missing)}" if plan.missing else ""
    return "; ".join(filter(None, (plan.stopped, missing)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _title(route: Route) -> str:
    confirmed = {None: "", True: ", confirmed", False: ", not confirmed"}[route.confirmed]
    share = f"{100 * math.exp(route.log_prob):.2g} %"
    return f"{_count(len(route.steps), 'step')}, {share}{confirmed}"


FORMATS: dict[str, Format[Plan]] = {
    "text": Format(text, (".txt",)),
    "jsonl": Format(jsonl, (".jsonl", ".ndjson"), has_columns=True),
    "trees": Format(trees, (".trees",)),
    "csv": formats.table(lambda context: (*COLUMNS, *context.copied_columns), rows, (".csv",)),
    "html": Format(section, (".html", ".htm"), head, report.foot, report.check),
}
