"""Makes the pairs of one row of a reaction file, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from molspec.text import reaction_sides
from molspec.training.config import PrepareOptions
from molspec.training.oxygens import map_by_bonds
from molspec.training.reactions import Reaction, Row, molecules
from molspec.training.rooting import (
    Molecule,
    UnfitReactionError,
    product_to_reactants,
    reactants_to_product,
)

#: Default variants of a reaction; those for retro as in Zhong et al. 2022.
_VARIANTS = {"retro": 20, "product": 1}


@dataclass(frozen=True)
class Made:
    """The pairs of a row, the canonical one first, or the reason why there are none."""

    row: Row
    split: str
    product: str = ""
    pairs: Sequence[tuple[str, str]] = ()
    reason: str | None = None
    #: Details of the reason, for this row.
    detail: str = ""


def make_pairs(row: Row, options: PrepareOptions, validation_share: float) -> Made:
    """Make the pairs of a row, as many as `options` ask for; a validation reaction has one.

    `validation_share` is that of the row's file: 1 for validation files, 0 for files beside them.
    The outcome depends on the arguments alone.
    """
    product = ""
    try:
        reaction = Reaction.parse(row.reaction)
        product = _joined(reaction.products)
        split = "validation" if _share_of(product) < validation_share else "train"
        variants = options.variants or _VARIANTS[options.task]
        variant_count = variants if split == "train" else 1
        random = Random(f"{options.seed} {row.file} {row.number}")
        if options.task == "retro":
            pairs = _retro_pairs(reaction, variant_count, random)
        else:
            before = reaction.reactants + reaction.agents
            sources, products = map_by_bonds(before, reaction.products)
            pairs = reactants_to_product(sources, products, variant_count, random)
    except UnfitReactionError as error:
        split = "validation" if validation_share == 1.0 else "train"
        return Made(row, split, product, reason=str(error))
    return Made(row, split, product, pairs)


def product_alone(row: Row) -> str:
    """The product of a reaction whose other side may be unfit; "" if it is unreadable."""
    right = reaction_sides(row.reaction)[-1]
    try:
        return _joined(molecules(right))
    except UnfitReactionError:
        return ""


def _joined(molecules: Iterable[Molecule]) -> str:
    return ".".join(sorted(molecule.smiles for molecule in molecules))


def _share_of(product: str) -> float:
    """A product's number in [0, 1), so that all its reactions are in one split."""
    digest = blake2b(product.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") / 2**64)


def _retro_pairs(reaction: Reaction, variant_count: int, random: Random) -> list[tuple[str, str]]:
    """Pairs whose reactants give an atom to the product; without maps, all reactants."""
    if len(reaction.products) > 1:
        raise UnfitReactionError("several products")
    product = reaction.products[0]
    numbers = {number for number in product.map_numbers if number}
    giving = [each for each in reaction.reactants if numbers.intersection(each.map_numbers)]
    return product_to_reactants(product, giving or reaction.reactants, variant_count, random)
