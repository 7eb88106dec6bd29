"""Types of the native library (csrc/text, csrc/search)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# --- text -----------------------------------------------------------------------------------------

class TokenizationError(ValueError): ...

def tokenize(smiles: str) -> list[str]: ...

class TokenIds:
    def __init__(self, tokens: Sequence[str], special_ids: Sequence[int]) -> None: ...
    def encode(self, smiles: str) -> list[int]: ...

# --- drafting ------------------------------------------------------------------------------------

class NoDraftOptions: ...

class WindowOptions:
    def __init__(
        self, *, draft_length: int, draft_count: int, even: bool, dilution: bool, smart: bool
    ) -> None: ...

class TreeOptions:
    def __init__(self, *, node_budget: int, max_depth: int, min_probability: float) -> None: ...

class GuessModel:
    def __init__(
        self, *, tokens: list[str], pad: int, bos: int, eos: int, unk: int, ngram: bytes | None
    ) -> None: ...

def build_ngram(
    *,
    tokens: list[str],
    pad: int,
    bos: int,
    eos: int,
    unk: int,
    targets: Sequence[Sequence[int]],
    order: int,
    min_gain: float,
) -> bytes: ...

class Drafter:
    def start(self, source_ids: Sequence[int]) -> None: ...
    def propose(self) -> tuple[list[int], list[int], list[float]]: ...
    def advance(self, token_ids: Sequence[int]) -> None: ...

class DrafterFactory:
    def __init__(
        self, options: NoDraftOptions | WindowOptions | TreeOptions, model: GuessModel
    ) -> None: ...
    def start(self, source_ids: Sequence[int]) -> Drafter: ...

# --- search ---------------------------------------------------------------------------------------

class Hypothesis:
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def log_prob(self) -> float: ...
    @property
    def finished(self) -> bool: ...

class SearchStatistics:
    @property
    def steps(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def drafted_tokens(self) -> int: ...
    @property
    def accepted_tokens(self) -> int: ...
    @property
    def emitted_tokens(self) -> int: ...

class Decoded:
    @property
    def query(self) -> int: ...
    @property
    def hypotheses(self) -> list[Hypothesis]: ...
    @property
    def statistics(self) -> SearchStatistics: ...
    @property
    def error(self) -> str: ...

class _Search:
    @property
    def nodes(self) -> npt.NDArray[np.int32]: ...
    @property
    def path_slots(self) -> npt.NDArray[np.int32]: ...
    @property
    def block_count(self) -> int: ...
    @property
    def live_count(self) -> int: ...
    def start(self, query: int, source_ids: Sequence[int]) -> None: ...
    def plan(self) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> list[Decoded]: ...

class GreedySearch(_Search):
    def __init__(self, drafters: DrafterFactory, query_count: int, max_length: int) -> None: ...

class BeamOptions:
    def __init__(
        self,
        *,
        beam_size: int,
        n_best: int,
        max_length: int,
        length_penalty: float,
        lookahead_steps: int,
        node_budget: int,
        min_confidence: float,
    ) -> None: ...

class BeamSearch(_Search):
    def __init__(self, options: BeamOptions, guess_model: GuessModel, query_count: int) -> None: ...

class SpeculativeBeamOptions:
    def __init__(
        self,
        *,
        beam_size: int,
        n_best: int,
        max_length: int,
        length_penalty: float,
        nucleus: float,
    ) -> None: ...

class SpeculativeBeamSearch(_Search):
    def __init__(
        self,
        options: SpeculativeBeamOptions,
        windows: WindowOptions | None,
        guess_model: GuessModel,
        query_count: int,
    ) -> None: ...
