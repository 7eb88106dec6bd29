"""Drafting: guesses that the model verifies. They change the time, never an exact answer."""

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.decoding import DraftTree as DraftTree, Path as Path
    from molspec.decoding.drafter import Drafter as Drafter, DrafterError as DrafterError
    from molspec.drafting.build import DraftContext as DraftContext
    from molspec.drafting.native import native_options as native_options, simulate as simulate
    from molspec.drafting.ngram import build_ngram as build_ngram, guess_model as guess_model
    from molspec.drafting.options import (
        AnyConfiguration as AnyConfiguration,
        AnyDrafter as AnyDrafter,
        DrafterMaker as DrafterMaker,
        Drafting as Drafting,
        HeadsDraft as HeadsDraft,
        LookAhead as LookAhead,
        ModelDraft as ModelDraft,
        NoDraft as NoDraft,
        OwnDraft as OwnDraft,
        SpecDraft as SpecDraft,
        TreeDraft as TreeDraft,
        WindowDrafts as WindowDrafts,
        resolve as resolve,
    )
    from molspec.drafting.spec_drafter import SpecDrafterModel as SpecDrafterModel
else:
    __getattr__, __dir__ = imported_when_used(__name__)
