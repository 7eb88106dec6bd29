"""The options of decoding as typed keywords; tests/prediction/test_options.py compares them."""

from typing import Literal, TypedDict

from molspec.common.workers import Processes
from molspec.drafting.options import AnyDrafter
from molspec.prediction.options import BeamKind, Verification


class IdKeywords(TypedDict, total=False):
    """Options of a search over token ids, without `n_best` and `max_length`."""

    beam_size: int | None
    beam: BeamKind | None
    drafter: AnyDrafter | None
    draft_length: int | None
    draft_count: int | None
    node_budget: int | None
    length_penalty: float
    finished: Literal["beam", "separate"]
    batch_size: int
    min_length: int
    token_log_probs: bool
    samples: int | None
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    verification: Verification
    beta: int
    tau: float
    judge: Literal["model", "drafter"]


class PredictKeywords(IdKeywords, total=False):
    """Options for text too, without `n_best`."""

    max_length: int | None
    target_prefix: str | None
    merge_duplicates: bool
    canonical_queries: bool | None
    augmentations: int
    augment_below: float | None
    drop_invalid: bool
    drop_unchanged: bool | None
    drop_impossible: bool
    max_beam_factor: int


class ScoreKeywords(TypedDict, total=False):
    """Options of given targets."""

    batch_size: int
    canonical_queries: bool | None
    token_log_probs: bool
    aligned: bool | None
    processes: Processes
