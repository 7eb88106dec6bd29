"""The task of a model: which side of a reaction it predicts."""

from typing import Literal

#: "retro": the reactants of a product; "product": the product of reactants and reagents.
Task = Literal["retro", "product"]
#: The columns of a table that a model's task decides: of queries and of targets.
COLUMNS: dict[Task | None, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "retro": (("product", "products"), ("reactants", "reactant")),
    "product": (("reactants", "reactant"), ("product", "products")),
    None: ((), ()),
}
#: A column of these beside one of reactants belongs to the query for a product.
REAGENT_COLUMNS = ("reagents", "reagent", "agents", "agent")


def reaction_smiles(task: Task, query: str, answer: str) -> str:
    """The reaction of a query and an answer to it: `reactants>reagents>product`."""
    if task == "retro":
        return f"{answer}>>{query}"
    return f"{query}>{answer}" if ">" in query else f"{query}>>{answer}"
