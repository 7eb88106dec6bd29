"""`/v1/plan`: routes from the server's stock, searched for among the requests of others."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import Field, create_model

from molspec.common.task import Task
from molspec.files import Query
from molspec.planners.expander import USABLE, Expander
from molspec.planners.routes import Plan, SearchLimits
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Result
from molspec.server.pending import PendingRequest, WithdrawnError
from molspec.server.schemas import Preparation, option_fields
from molspec.server.service import Service, Text, in_order, refusing
from molspec.server.worker import BusyError, EngineError, StoppedError

#: Seconds of a search by default, and between the lines that say how far it is.
_SECONDS, _PAUSE = 30.0, 0.4
_NEEDS = 'planning needs a stock, a retro model and Syntheseus (pip install "molspec[planning]")'
#: Molecules that a search expands at most, and searches that wait for the one before them.
_MOST_EXPANSIONS, _MOST_WAITING = 1000, 8


class _Target(Preparation):
    """A target, and the limits of the search for its routes."""

    smiles: Annotated[Text, Field(min_length=1, max_length=1000, description="The target.")]
    n_best: Annotated[int, Field(ge=1, le=50, description="Reactions for each molecule.")] = 10
    algorithm: Literal["retro-star", "mcts"] = "retro-star"
    check: Annotated[
        bool, Field(description="Ask the server's model of products about each step.")
    ] = False


if TYPE_CHECKING:
    PlanBody = _Target
else:
    _limits = option_fields(
        SearchLimits,
        routes=(Annotated[int, Field(ge=1, le=10)], 3),
        seconds=(Annotated[float, Field(gt=0)] | None, None),
        expansions=(Annotated[int, Field(ge=1, le=_MOST_EXPANSIONS)], _MOST_EXPANSIONS),
    )
    PlanBody = create_model("PlanBody", __base__=_Target, **_limits)


@dataclass
class _Progress:
    """How far a search is, and whether its client has left."""

    expansions: int = 0
    has_begun: float | None = None
    is_withdrawn: bool = False

    @property
    def seconds(self) -> float:
        return 0.0 if self.has_begun is None else perf_counter() - self.has_begun


class _Shared(Expander):
    """Asks the server's worker, where its queries take turns with those of other requests."""

    def __init__(self, service: Service, task: Task, progress: _Progress, keep_salts: bool) -> None:
        worker = service.default(task)
        super().__init__(worker.model, keep_salts=keep_salts)
        self._service, self._worker, self._progress = service, worker, progress
        self._loop = asyncio.get_running_loop()

    def _answers(self, queries: Sequence[str], options: PredictOptions) -> list[Result]:
        """Answer, from the thread of the search. Raises WithdrawnError if the client has left."""
        if self._progress.is_withdrawn:
            raise WithdrawnError
        asked = asyncio.run_coroutine_threadsafe(self._ask(queries, options.n_best), self._loop)
        results = asked.result()
        if self.model.task != "product":
            self._progress.expansions += len(queries)
        return results

    def report(self, *_: object) -> None:
        """Say nothing: the plan says why, and a server's log has no molecules."""

    async def _ask(self, queries: Sequence[str], n_best: int) -> list[Result]:
        config = self._service.config(self._worker, **{"n_best": n_best, **USABLE})
        pending = PendingRequest(queries, config, most_counted=self._service.limits.queries)
        self._worker.submit(pending)
        try:
            return await in_order(pending.answers(self._service.limits.seconds))
        finally:
            if len(pending.answered) < pending.count:
                self._worker.withdraw(pending)


def make_router(service: Service) -> APIRouter:
    """The route, for an application to include."""
    router = APIRouter(prefix="/v1", tags=["v1"])
    lane = ThreadPoolExecutor(1, thread_name_prefix="molspec plans")
    waiting = 0

    @router.post("/plan", responses={404: {"description": "The server has no stock."}})
    async def plan(body: PlanBody) -> StreamingResponse:
        """Lines of progress, then the routes as of `molspec plan --format jsonl`.

        One target is searched for at a time; who leaves ends the search.
        """
        if not service.plans:
            raise HTTPException(404, _NEEDS)
        if body.check and service.default("product").model.task != "product":
            raise HTTPException(404, "a check needs a model of task product")
        if waiting >= _MOST_WAITING:
            raise BusyError(round(_SECONDS), "searches")
        with refusing("body"):
            given = body.model_dump(include={each.name for each in fields(SearchLimits)})
            most = min(given["seconds"] or _SECONDS, service.limits.seconds)
            limits = SearchLimits(**{**given, "seconds": most})
            if "n_best" not in body.model_fields_set:
                body.n_best = service.limits.usual
            service.config(service.default("retro"), **{"n_best": body.n_best, **USABLE})
        return StreamingResponse(lines(body, limits), media_type="application/x-ndjson")

    async def lines(body: PlanBody, limits: SearchLimits) -> AsyncIterator[str]:
        nonlocal waiting
        progress = _Progress()
        tasks: list[Task] = ["retro", "product"] if body.check else ["retro"]
        models = [_Shared(service, task, progress, body.keep_salts) for task in tasks]
        search = asyncio.get_running_loop().run_in_executor(
            lane, partial(_search, models, service.stock, body, limits, progress)
        )
        waiting += 1
        try:
            while not (await asyncio.wait([search], timeout=_PAUSE))[0]:
                yield _line(expansions=progress.expansions, seconds=round(progress.seconds, 1))
            yield _line(**search.result())
        finally:
            waiting -= 1
            progress.is_withdrawn = True

    return router


def _line(**values: Any) -> str:
    return json.dumps(values) + "\n"


def _search(
    models: list[_Shared], stock: Any, body: PlanBody, limits: SearchLimits, progress: _Progress
) -> dict[str, Any]:
    """The plan as JSON, or why there is none."""
    progress.has_begun = perf_counter()
    from molspec.planners.search import Planner
    from molspec.planners.syntheseus import BackwardModel, ForwardModel

    try:
        model = BackwardModel(expander=models[0], default_num_results=body.n_best, use_cache=True)
        forward = (ForwardModel(expander=each) for each in models[1:])
        hydrogen = body.deuterium_as_hydrogen
        planner = Planner(model, stock, limits, body.algorithm, hydrogen, *forward)
        return planner.plan(Query(body.smiles)).to_json()
    except (BusyError, EngineError, StoppedError, WithdrawnError) as error:
        return Plan(1, Query(body.smiles), error=str(error) or "withdrawn").to_json()
