"""molspec's own contract: `/v1/predict`, `/v1/score`, `/v1/models`, `/v1/stock`."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from molspec import __version__
from molspec.common.fields import check_one_each
from molspec.files import FORMATS, Answer, OutputContext, Query
from molspec.files.pasted import read_pasted
from molspec.prediction.options import OPTION_NAMES
from molspec.server import pending, schemas
from molspec.server.service import Service, in_order, refusing
from molspec.server.worker import EngineError, Worker
from molspec.text import canonicalise

_LINES = "application/x-ndjson"
#: Results that are rendered at a time.
_PIECE = 4
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": schemas.AnswerList, "content": {_LINES: {"schema": {"type": "string"}}}},
    413: {"description": "The body is larger than is read."},
    422: {"description": "The request is invalid or beyond a limit; `loc` names the field."},
    429: {"description": "Too many queries wait; retry after Retry-After seconds."},
}


def make_router(service: Service) -> APIRouter:
    """The routes, for an application to include."""
    router = APIRouter(prefix="/v1", tags=["v1"])
    _add_answers(router, service)
    _add_models(router, service)
    _add_molecules(router, service)
    return router


def _add_answers(router: APIRouter, service: Service) -> None:
    @router.post("/predict", responses=_ANSWERS, response_model=schemas.AnswerList)
    async def predict(body: schemas.PredictBody, request: Request) -> Response:
        """Predict. A query that cannot be answered has an `error`; the others are answered."""
        with refusing("body"):
            worker = _named(service, body.model)
            service.limits.check_count("queries", body.queries)
            given = body.model_dump(include={*OPTION_NAMES}, exclude_unset=True)
            config = service.config(worker, body.raw, **given)
        reading = (body.keep_salts, body.seconds, body.deuterium_as_hydrogen)
        prepared = await service.prepared(request, worker, body.queries, *reading)
        decoded = [each.decoded for each in prepared]
        answers = service.submit(request, worker, decoded, config, seconds=body.seconds)
        return await _answer(service, worker, answers, prepared, body.stream)

    @router.post("/score", responses=_ANSWERS, response_model=schemas.AnswerList)
    async def score(body: schemas.ScoreBody, request: Request) -> Response:
        """Compute the log-probability of each query's target."""
        with refusing("body"):
            worker = _named(service, body.model)
            check_one_each("targets", body.targets, body.queries)
            service.limits.check_count("queries", body.queries)
            aligned = worker.model.resolve_aligned(body.aligned)
            config = service.config(worker, canonical_queries=body.canonical_queries)
        queries = [Query(query) for query in body.queries]
        targets = pending.Targets(body.targets, aligned)
        answers = service.submit(request, worker, body.queries, config, targets, body.seconds)
        return await _answer(service, worker, answers, queries, body.stream)


def _add_models(router: APIRouter, service: Service) -> None:
    @router.get("/models")
    def models() -> schemas.Models:
        """List the served models and the limits of a request."""
        return schemas.Models(
            version=__version__,
            models=[
                schemas.ModelItem(
                    name=name,
                    task=worker.model.task,
                    dtype=worker.model.dtype,
                    device=worker.model.device,
                    canonical_queries=worker.model.canonical_queries,
                    aligned=worker.model.aligned,
                    fingerprint=worker.model.identity.weights,
                )
                for name, worker in service.workers.items()
            ],
            stock=None if service.stock is None else len(service.stock),
            match=None if service.stock is None else service.stock.match,
            plans=service.plans,
            limits=asdict(service.limits),
        )


def _add_molecules(router: APIRouter, service: Service) -> None:
    @router.post("/read")
    async def read(body: schemas.ReadBody) -> dict[str, str]:
        """Read what was pasted, as SMILES."""
        with refusing("body"):
            (smiles,) = await service.early(lambda text: read_pasted(text, body.task), [body.text])
        return {"smiles": smiles}

    @router.post("/stock", responses={404: {"description": "The server has no stock."}})
    async def stock(body: schemas.StockBody) -> dict[str, list[schemas.Offer | None]]:
        """Look up molecules for sale: an offer for each, in their order, or null."""
        known = service.stock
        if known is None:
            raise HTTPException(404, "this server has no stock")
        with refusing("body"):
            service.limits.check_count("smiles", body.smiles)

        def offer(smiles: str) -> schemas.Offer | None:
            molecule = canonicalise(smiles)
            if molecule is None or molecule not in known:
                return None
            bought = known.bought(molecule)
            return schemas.Offer(
                name=known.get(molecule), price=known.price(molecule), bought=bought
            )

        return {"offers": await service.early(offer, body.smiles)}


def _named(service: Service, name: str | None) -> Worker:
    if name is None:
        if len(service.workers) > 1:
            names = ", ".join(service.workers)
            raise ValueError(f"model is not given: expected one of {names}")
        (name,) = service.workers
    return service.worker(name)


async def _answer(
    service: Service,
    worker: Worker,
    answers: AsyncIterator[pending.Answered],
    queries: Sequence[Query],
    stream: bool,
) -> Response:
    """All results, or one line for each as it is made, as in the command line's jsonl."""
    context = OutputContext(worker.name, worker.model.task)

    def line(answered: pending.Answered) -> str:
        index, result = answered
        answer = Answer(index + 1, queries[index], result)
        return FORMATS["jsonl"].written(answer, context)[1]

    async def lines() -> AsyncIterator[str]:
        try:
            async for answered in answers:
                (text,) = await service.in_pieces(line, [answered])
                yield text
        except (pending.WithdrawnError, EngineError, ValueError):
            return  # the client has left, or sees that lines are missing

    if stream:
        return StreamingResponse(lines(), media_type=_LINES)
    found = enumerate(await in_order(answers))
    rendered = await service.in_pieces(line, [*found], _PIECE)
    results = ", ".join(text.rstrip() for text in rendered)
    return Response(f'{{"results": [{results}]}}', media_type="application/json")
