"""A Spec-Drafter: a model that guesses the next k tokens of another one at once."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from molspec.common.fields import check_counts
from molspec.model.copying import copied_between_processes
from molspec.model.spec import MOST_PLACES, ModelSpec


@copied_between_processes
@dataclass(frozen=True, eq=False)
class SpecDrafterWeights:
    """A Spec-Drafter (Xia et al. 2023) with the vocabulary of its target model.

    k: tokens that it was trained to guess at once. weights have the names and shapes of
    `spec.weight_shapes`; a MASK is PAD.

    Raises ValueError, naming the field.
    """

    k: int
    spec: ModelSpec
    weights: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        check_counts(self, k=MOST_PLACES)
