"""The contract of ASKCOS v2's Augmented Transformer services, forward and retro.

askcos2_core, wrappers/retro/augmented_transformer.py and wrappers/forward/augmented_transformer.py:
`custom_prediction_url` of either is `http://HOST:PORT/predictions`.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, FailFast, Field

from molspec.server.service import Service, Text, refusing


class _Asked(BaseModel):
    model_config = ConfigDict(protected_namespaces=())
    model_name: str
    smiles: Annotated[list[Text], FailFast(), Field(min_length=1)]


def make_router(service: Service) -> APIRouter:
    """The route, for an application to include."""
    router = APIRouter(tags=["ASKCOS"])

    @router.post("/predictions/{model_name}")
    async def predictions(
        model_name: str,
        body: _Asked,
        request: Request,
        n_best: Annotated[
            int | None, Query(description="Number of answers; ASKCOS' wrapper sends none: 10.")
        ] = None,
    ) -> list[dict[str, Any]]:
        """Answers, called products for retro too, and their log-probs as scores, best first."""
        worker = service.worker(model_name)
        with refusing("body"):
            service.limits.check_count("smiles", body.smiles)
        with refusing("query", "n_best"):
            n_best = service.limits.usual if n_best is None else n_best
            config = service.config(worker, n_best=n_best)
        names = ("products", "scores")
        return await service.for_planners(request, worker, body.smiles, config, *names)

    return router
