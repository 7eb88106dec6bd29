"""The bodies of `/v1`, described by OpenAPI."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model, model_validator

from molspec.common.fields import hints
from molspec.common.task import Task
from molspec.drafting.options import DRAFTERS
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import answer_fields


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class Preparation(_Strict):
    """How a query is read."""

    keep_salts: Annotated[
        bool, Field(description="Decode salts unchanged; otherwise retro removes counter-ions.")
    ] = False
    deuterium_as_hydrogen: Annotated[
        bool, Field(description="Read deuterium as hydrogen if the model lacks it; answers say so.")
    ] = False


class _Body(_Strict):
    model: Annotated[str | None, Field(description="Optional if one model is served.")] = None
    queries: Annotated[list[str], FailFast(), Field(min_length=1, description="SMILES.")]
    stream: Annotated[
        bool, Field(description="One line for each result (NDJSON) when made; id is the query's.")
    ] = False
    seconds: Annotated[
        float | None,
        Field(gt=0, description="Queries not answered by then are errors; the server's own limit."),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _few(cls, body: Any) -> Any:
        """Refuse many unknown fields by one error, not by one each."""
        if isinstance(body, dict) and len(body) > len(cls.model_fields):
            raise ValueError(f"{len(body)} fields: expected at most {len(cls.model_fields)}")
        return body


def option_fields(kind: Any, **own: tuple[Any, Any]) -> dict[str, Any]:
    """A field of a body for each setting of a request; own: types and defaults of the server's."""
    found = {}
    for each in fields(kind):
        if each.metadata["http"]:
            hint, default = own.get(each.name, (hints(kind)[each.name], each.default))
            found[each.name] = (Annotated[hint, Field(description=each.metadata["help"])], default)
    return found


def _prediction_fields() -> dict[str, Any]:
    """A field of an answer for each of `Prediction`, and its mark."""
    described: dict[str, Any] = {
        each.name: (
            Annotated[each.kind, Field(description=each.help)],
            ... if each.by is None else each.default,
        )
        for each in answer_fields()
    }
    note = Field(description="Why it is no reaction as it stands.")
    return {**described, "note": (Annotated[str | None, note], ...)}


if TYPE_CHECKING:
    _Options = _Body
    PredictionItem = BaseModel
else:
    _named = option_fields(PredictOptions, drafter=(Literal[DRAFTERS] | None, None))
    _Options = create_model("_Options", __base__=_Body, **_named)
    PredictionItem = create_model("PredictionItem", __doc__="An answer.", **_prediction_fields())


class PredictBody(_Options, Preparation):
    """Queries for a model, with the options of `molspec predict`."""

    raw: Annotated[
        bool, Field(description="The beam as it is: duplicates and invalid answers too.")
    ] = False


class ScoreBody(_Body):
    """Queries, and for each the target whose log-probability is requested."""

    targets: Annotated[list[str], FailFast(), Field(description="SMILES.")]
    canonical_queries: bool | None = None
    aligned: Annotated[
        bool | None,
        Field(
            description="true: score the molecule in the model's spelling; false: the target as "
            "it is spelt; by default the model's own."
        ),
    ] = None


class ResultItem(BaseModel):
    """The answers to a query, best first, or why there are none."""

    id: Annotated[str, Field(description="The query's place in the request, from 1.")]
    query: str
    predictions: list[PredictionItem]
    note: Annotated[
        str | None, Field(description="The SMILES that was decoded in its place, and why.")
    ]
    error: str | None


class AnswerList(BaseModel):
    """A result a query, in their order."""

    results: list[ResultItem]


class StockBody(_Strict):
    """Molecules that may be for sale."""

    smiles: Annotated[list[Annotated[str, Field(max_length=1000)]], FailFast(), Field(min_length=1)]


class ReadBody(_Strict):
    """What was pasted: standard InChI, a molfile, RXN or a reaction; else it is as it is."""

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    task: Annotated[Task | None, Field(description="Decides the side of a reaction.")] = None


class Offer(BaseModel):
    """What is bought for a molecule."""

    name: str
    price: Annotated[str, Field(description="As the stock has it.")]
    bought: Annotated[str, Field(description='SMILES or InChIKey; "" if it is this molecule.')]


class ModelItem(BaseModel):
    """A model that is served."""

    name: str
    task: Task | None
    dtype: str
    device: str
    canonical_queries: bool
    aligned: bool
    fingerprint: Annotated[str, Field(description="Of its weights and all that decides answers.")]


class Models(BaseModel):
    """The served models, what else the server does, and the limits of a request."""

    version: Annotated[str, Field(description="Of molspec.")]
    models: list[ModelItem]
    stock: Annotated[int | None, Field(description="Molecules for sale, if it knows any.")]
    match: Annotated[str | None, Field(description="How molecules match them.")]
    plans: Annotated[bool, Field(description="Whether /v1/plan answers.")]
    limits: dict[str, int | float]
