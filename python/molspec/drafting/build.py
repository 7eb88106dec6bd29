"""Builds every drafter from its options and from the model that it drafts for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from molspec import _native, checkpoints
from molspec.checkpoints.bundled import locate
from molspec.decoding.drafter import Drafter, wants_hidden_states
from molspec.drafting import draft_model, options, session_drafter
from molspec.drafting.gamma import Gamma
from molspec.drafting.heads import HeadsDrafter
from molspec.drafting.native import NativeDrafters, native_options
from molspec.drafting.spec_drafter import SpecDrafterModel
from molspec.engine.devices import Engine, by_name, make_engine
from molspec.engine.session import Session
from molspec.model.heads import DraftHeads
from molspec.text.vocabulary import Vocabulary, difference


@dataclass(frozen=True)
class DraftContext:
    """The target model's data from which drafters are built.

    guess: the model's n-gram model and the roles of its tokens.
    tokens: of its vocabulary, if they are known.
    heads, spec_drafter: the model's own drafters.
    device: of the model; heads are moved there when they first draft.
    model: its fingerprint.
    width: of the beam.
    query_count: maximum queries in progress together.
    open_module: opens a session on a draft model of `molspec.decode`; also gives the positions of
        its longest source, if they are limited.
    read: the draft models that were read from files for this model, each once.
    """

    guess: _native.GuessModel
    tokens: Sequence[str] | None = None
    heads: DraftHeads | None = None
    spec_drafter: SpecDrafterModel | None = None
    device: str = "cpu"
    model: str = ""
    width: int = 1
    query_count: int = 1024
    open_module: Callable[[Any], tuple[Session, int | None]] | None = None
    read: dict[Any, Any] = field(default_factory=dict)

    def build(self, drafter: options.AnyConfiguration) -> Drafter:
        """Build a drafter for the model.

        Raises ValueError like `check`, and if it cannot draft for the model; CheckpointError if
        there is no such draft model.
        """
        match drafter:
            case options.HeadsDraft():
                heads = (self.heads or _missing(drafter)).to(self.device)
                return HeadsDrafter(heads, self.guess, drafter)
            case options.SpecDraft():
                spec_drafter = self.spec_drafter or _missing(drafter)
                return spec_drafter.open(drafter, self.guess, self.query_count)
            case options.ModelDraft():
                return self._model_drafter(drafter)
            case options.NoDraft() | options.WindowDrafts() | options.TreeDraft():
                return NativeDrafters(drafter, self.guess)
            case options.LookAhead():
                raise ValueError(f"drafter is {drafter!r}: expected one that drafts after a path")
            case options.DrafterMaker():
                built: Drafter = drafter.build(self)
                return built
            case _:
                return drafter

    def check(self, drafter: options.AnyConfiguration | None) -> None:
        """Raise ValueError for a drafter that the model lacks."""
        match drafter:
            case options.LookAhead():
                self.check(drafter.drafter)
            case options.HeadsDraft():
                _ = self.heads or _missing(drafter)
            case options.SpecDraft():
                _ = self.spec_drafter or _missing(drafter)

    def _model_drafter(self, draft: options.ModelDraft) -> draft_model.ModelDrafter:
        if self.open_module is not None and not isinstance(draft.model, str | Path):
            session, longest = self.open_module(draft.model)
            opened = session_drafter.Opened(session, self.query_count, max_positions=longest)
        else:
            opened = session_drafter.Opened.of(*self._draft_model(draft), self.query_count)
        own = options.resolve(draft.drafter)
        inner = None if isinstance(own, options.Drafting) else replace(self, width=1).build(own)
        if wants_hidden_states(inner):
            raise ValueError(
                f"drafter is {draft.drafter!r}: expected one that needs no hidden states, which a "
                "draft model does not give"
            )
        native = _native.Continuations(
            row_count=self.query_count,
            guess_model=self.guess,
            drafts=native_options(own),
            width=draft.width or self.width,
        )
        gamma = Gamma(None if draft.gamma == "adaptive" else draft.gamma)
        return draft_model.ModelDrafter(opened, native, gamma, inner, self.guess)

    def _draft_model(self, draft: options.ModelDraft) -> tuple[Engine, Vocabulary]:
        if not isinstance(draft.model, str | Path):
            kind = type(draft.model).__name__
            raise ValueError(f"model is a {kind}: expected the name or the path of a model")
        name, dtype = str(draft.model), by_name(draft.dtype)
        if (key := (options.ModelDraft, name, dtype)) not in self.read:
            checkpoint = checkpoints.read(locate(name))
            self._check_vocabulary(name, checkpoint.vocabulary)
            engine = make_engine(checkpoint.spec, checkpoint.weights, "cpu", dtype)
            self.read[key] = engine, checkpoint.vocabulary
        found: tuple[Engine, Vocabulary] = self.read[key]
        return found

    def _check_vocabulary(self, name: str, own: Vocabulary) -> None:
        """Raise ValueError, naming both models' tokens, if the drafter's differ."""
        if self.tokens is None:
            raise ValueError(
                f"tokens is None: expected the target's tokens, to compare with those of {name!r}"
            )
        if (found := difference(own.tokens, self.tokens)) is not None:
            raise ValueError(
                f"drafter {name!r} has another vocabulary than the model that it drafts for: "
                f"{found}; expected the same tokens in the same order"
            )


def _missing(draft: options.OwnDraft) -> NoReturn:
    raise ValueError(
        f"drafter is {draft.kind!r}: the model has no {draft.needs}; "
        f"`molspec {draft.command}` trains one"
    )
