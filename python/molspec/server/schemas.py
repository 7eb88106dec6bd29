"""Bodies of `/v1`, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from molspec.options import BeamKind, FinishedPlace, Judge, Verification
from molspec.task import Task

Queries = Annotated[list[str], Field(min_length=1, description="SMILES.")]
Seconds = Annotated[
    float | None,
    Field(gt=0, description="What is not answered by then is an error; the server's own limit."),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


class PredictBody(_Body):
    """What is asked of a model: the options of `molspec predict`."""

    model: Annotated[str | None, Field(description="May be left out where one is served.")] = None
    queries: Queries
    n_best: Annotated[int, Field(description="Answers a query.")] = 1
    beam_size: Annotated[int | None, Field(description="Hypotheses kept; n_best.")] = None
    beam: Annotated[BeamKind | None, Field(description="Greedy for one answer, or exact.")] = None
    drafter: (
        Literal["tree", "windows", "heads", "tree+heads", "spec", "tree+spec", "none"] | None
    ) = None
    draft_length: Annotated[int | None, Field(description="Tokens of a window.")] = None
    draft_count: Annotated[int | None, Field(description="Windows a query.")] = None
    node_budget: Annotated[int | None, Field(description="Nodes of a tree.")] = None
    length_penalty: Annotated[
        float, Field(description="Rank by log_prob / length ** this.", allow_inf_nan=False)
    ] = 0.0
    finished: FinishedPlace = "beam"
    max_length: Annotated[int | None, Field(description="Tokens of an answer at most.")] = None
    merge_duplicates: Annotated[bool, Field(description="One molecule is one answer.")] = False
    canonical_queries: Annotated[
        bool | None, Field(description="As the model was trained if not said.")
    ] = None
    views: Annotated[int, Field(description="Spellings of a query to ask.")] = 1
    drop_invalid: Annotated[bool, Field(description="Only answers that are molecules.")] = False
    drop_unchanged: Annotated[bool, Field(description="Only answers that are reactions.")] = False
    widen: Annotated[int, Field(description="Times as wide a beam as that may take.")] = 4
    samples: Annotated[
        int | None, Field(description="Answers drawn at random, in place of the best ones.")
    ] = None
    temperature: Annotated[
        float, Field(description="Log-probs are divided by it.", allow_inf_nan=False)
    ] = 1.0
    top_k: Annotated[int | None, Field(description="Draw among so many tokens.")] = None
    top_p: Annotated[
        float | None, Field(description="Among those of this probability.", allow_inf_nan=False)
    ] = None
    seed: Annotated[int, Field(description="Other seeds, other samples.")] = 0
    replacement: Annotated[bool, Field(description="False: samples that all differ.")] = True
    verification: Annotated[
        Verification, Field(description="relaxed: greedy, keeps drafts nearly as likely.")
    ] = "strict"
    beta: Annotated[int, Field(description="A relaxed draft is among so many likeliest.")] = 3
    tau: Annotated[
        float, Field(description="And at most so many nats below.", allow_inf_nan=False)
    ] = 1.0
    judge: Annotated[Judge, Field(description="By whose probability.")] = "model"
    strip_salts: Annotated[bool, Field(description="Ask without counter-ions.")] = False
    stream: Annotated[
        bool, Field(description="A line a result (NDJSON), as they are done; id is the query's.")
    ] = False
    seconds: Seconds = None


class ScoreBody(_Body):
    """Queries and the targets whose log-probs are asked for, one a query."""

    model: Annotated[str | None, Field(description="May be left out where one is served.")] = None
    queries: Queries
    targets: Annotated[list[str], Field(description="SMILES, scored as they are spelt.")]
    canonical_queries: bool | None = None
    stream: bool = False
    seconds: Seconds = None


class PredictionItem(BaseModel):
    """An answer."""

    smiles: Annotated[str, Field(description="As the model wrote it.")]
    canonical: Annotated[str | None, Field(description="None where it is no molecule.")]
    log_prob: Annotated[float, Field(description="Natural log of its probability.")]
    finished: Annotated[bool, Field(description="False where max_length came first.")]
    count: Annotated[int, Field(description="Equal samples; left out where 1.")] = 1
    inclusion: Annotated[
        float | None, Field(description="Of samples that all differ: how probably it is one.")
    ] = None
    tolerated: Annotated[
        int | None, Field(description="Relaxed: tokens that the model would not write.")
    ] = None


class ResultItem(BaseModel):
    """The answers to a query, best first, or why there are none."""

    id: Annotated[str, Field(description="The query's place in the request, from 1.")]
    query: str
    predictions: list[PredictionItem]
    note: Annotated[str | None, Field(description="What was asked in its place, and why.")]
    error: str | None


class Results(BaseModel):
    """A result a query, in their order."""

    results: list[ResultItem]


class ModelItem(BaseModel):
    """A model that is served."""

    name: str
    task: Task | None
    dtype: str
    device: str
    canonical_queries: bool


class Models(BaseModel):
    """The models that are served, and what a request may ask of them."""

    models: list[ModelItem]
    limits: dict[str, int | float]
