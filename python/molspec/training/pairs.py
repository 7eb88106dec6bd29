"""Makes the pairs of one row of a reaction file, or the reason why it has none."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from molspec.text import reaction_sides, salts, tokens
from molspec.training import config, oxygens, rooting
from molspec.training.reactions import Reaction, Row, molecules

#: Default variants of a reaction; those for retro as in Zhong et al. 2022.
_VARIANTS = {"retro": 20, "product": 1}
#: The split of a file's rows, by its `validation_share`; between these the product decides.
SPLIT_OF = {0.0: "train", 1.0: "validation"}


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


def make_pairs(row: Row, options: config.PrepareOptions, validation_share: float) -> Made:
    """Make the pairs of a row, as many as `options` ask for; a validation reaction has one.

    `validation_share` is that of the row's file: 1 for validation files, 0 for files beside them.
    The outcome depends on the arguments alone.
    """
    product, split = "", SPLIT_OF.get(validation_share, "")
    try:
        reaction = Reaction.parse(without_counter_ions(row.reaction))
        product = _joined(reaction.products)
        split = "validation" if _share_of(product) < validation_share else "train"
        variants = options.variants or _VARIANTS[options.task]
        variant_count = variants if split == "train" else 1
        random = Random(f"{options.seed} {row.file} {row.number}")
        if options.task == "retro":
            pairs = _retro_pairs(reaction, variant_count, random)
        else:
            before = reaction.reactants + reaction.agents
            sources, products = oxygens.map_by_bonds(before, reaction.products)
            pairs = rooting.reactants_to_product(sources, products, variant_count, random)
    except rooting.UnfitReactionError as error:
        return Made(row, split, product, reason=str(error))
    return Made(row, split, product, pairs)


def product_alone(row: Row) -> str:
    """The product of a reaction whose other side may be unfit; "" if it is unreadable."""
    right = reaction_sides(without_counter_ions(row.reaction))[-1]
    try:
        return _joined(molecules(right))
    except rooting.UnfitReactionError:
        return ""


def without_counter_ions(reaction: str) -> str:
    """The reaction with the molecule of a salt as its product, which `predict` would read."""
    *left, right = reaction_sides(reaction)
    with suppress(ValueError):  # several molecules that are not a salt
        right = salts.main_component(right)[0]
    return ">".join([*left, right])


def has_spare(reactants: str, product: str) -> bool:
    """Whether the product has enough atoms without one of the reactants, likely a reagent."""
    needed, given = tokens.element_counts(product), tokens.element_counts(reactants)
    return any(not needed - (given - tokens.element_counts(each)) for each in reactants.split("."))


def _joined(molecules: Iterable[rooting.Molecule]) -> str:
    return ".".join(sorted(molecule.smiles for molecule in molecules))


def _share_of(product: str) -> float:
    """A product's number in [0, 1), so that all its reactions are in one split."""
    digest = blake2b(product.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") / 2**64)


def _retro_pairs(reaction: Reaction, variant_count: int, random: Random) -> list[tuple[str, str]]:
    """Pairs whose reactants give an atom to the product; without maps, all reactants."""
    if len(reaction.products) > 1:
        raise rooting.UnfitReactionError("several products")
    product = reaction.products[0]
    numbers = {number for number in product.map_numbers if number}
    giving = [each for each in reaction.reactants if numbers.intersection(each.map_numbers)]
    reactants = giving or reaction.reactants
    return rooting.product_to_reactants(product, reactants, variant_count, random)
