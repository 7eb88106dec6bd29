"""One row of a reaction file -> its pairs, or why it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from molspec.task import Task
from molspec.training.config import PrepareOptions
from molspec.training.reactions import Reaction, Row
from molspec.training.rooting import (
    Molecule,
    Pair,
    UnfitReactionError,
    product_to_reactants,
    reactants_to_product,
)

#: Variants of a reaction by default: for retro as many as Zhong et al. 2022.
_VARIANTS = {"retro": 20, "product": 1}


@dataclass(frozen=True)
class PairOptions:
    """What `make_pairs` needs to know; see PrepareOptions."""

    task: Task
    variant_count: int
    validation_share: float
    seed: int

    @classmethod
    def of(cls, options: PrepareOptions, validation_share: float) -> PairOptions:
        """Those that `options` say; validation pairs are not always a share of a file's rows."""
        count = options.variants or _VARIANTS[options.task]
        return cls(options.task, count, validation_share, options.seed)


@dataclass(frozen=True)
class Made:
    """What became of a row: pairs, canonical one first, or the reason why there are none."""

    row: Row
    split: str
    product: str = ""
    pairs: tuple[Pair, ...] = ()
    reason: str | None = None


def make_pairs(row: Row, options: PairOptions) -> Made:
    """Make the pairs of a row, as many as `options` ask for; a validation reaction has one.

    The outcome depends on the row and the options alone.
    """
    try:
        reaction = Reaction.parse(row.reaction)
        product = ".".join(sorted(molecule.smiles for molecule in reaction.products))
        split = "validation" if _share_of(product) < options.validation_share else "train"
        variant_count = options.variant_count if split == "train" else 1
        random = Random(f"{options.seed} {row.file} {row.number}")
        if options.task == "retro":
            pairs = _retro_pairs(reaction, variant_count, random)
        else:
            before = reaction.reactants + reaction.agents
            pairs = reactants_to_product(before, reaction.products, variant_count, random)
    except UnfitReactionError as error:
        split = "validation" if options.validation_share == 1.0 else "train"
        return Made(row, split, reason=str(error))
    return Made(row, split, product, tuple(pairs))


def _share_of(product: str) -> float:
    """Give a product its number in [0, 1): all its reactions are in one split."""
    digest = blake2b(product.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") / 2**64)


def _retro_pairs(reaction: Reaction, variant_count: int, random: Random) -> list[Pair]:
    if len(reaction.products) > 1:
        raise UnfitReactionError("several products")
    product = reaction.products[0]
    reactants = _contributors(reaction.reactants, product)
    return product_to_reactants(product, reactants, variant_count, random)


def _contributors(reactants: Sequence[Molecule], product: Molecule) -> Sequence[Molecule]:
    """Keep the molecules that give an atom to the product; all where no map tells."""
    numbers = {number for number in product.map_numbers if number}
    giving = [molecule for molecule in reactants if numbers.intersection(molecule.map_numbers)]
    return giving or reactants
