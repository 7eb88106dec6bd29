"""The contract of ASKCOS v2's Augmented Transformer services, forward and retro.

askcos2_core, wrappers/retro/augmented_transformer.py and wrappers/forward/augmented_transformer.py:
`custom_prediction_url` of either is `http://HOST:PORT/predictions`.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from molspec.results import Result
from molspec.server.service import Service, Text, wrong_use


class _Asked(BaseModel):
    model_config = ConfigDict(protected_namespaces=())
    model_name: str
    smiles: Annotated[list[Text], Field(min_length=1)]


def make_router(service: Service) -> APIRouter:
    """The route, for an application to include."""
    router = APIRouter(tags=["ASKCOS"])

    @router.post("/predictions/{model_name}")
    async def predictions(
        model_name: str,
        body: _Asked,
        request: Request,
        n_best: Annotated[int, Query(description="Answers; the wrapper says none.")] = 10,
    ) -> list[dict[str, Any]]:
        """Answers, called products for retro too, and their log-probs as scores, best first."""
        worker = service.worker(model_name)
        try:
            options = service.options(worker, body.smiles, n_best=n_best)
        except ValueError as error:
            raise wrong_use(error, "query", "n_best") from error
        pending = service.submit(worker, body.smiles, options)
        return [_item(result) for result in await service.all_answers(request, worker, pending)]

    return router


def _item(result: Result) -> dict[str, Any]:
    """As written, without those that were cut off, which are no answers to a planner."""
    answers = [prediction for prediction in result.predictions if prediction.finished]
    item: dict[str, Any] = {
        "products": [prediction.smiles for prediction in answers],
        "scores": [prediction.log_prob for prediction in answers],
    }
    return item if result.error is None else {**item, "error": result.error}
