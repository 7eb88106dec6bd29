"""The contract of Chemformer's REST service, which AiZynthFinder's Chemformer strategy calls.

MolecularAI/Chemformer, service/chemformer_service.py: its paths, bodies and answers. A molecule
that cannot be answered has empty lists, or no likelihood, and an additional `error`.
"""

from collections.abc import Sequence
from itertools import chain, islice
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from pydantic import FailFast

from molspec.common.fields import check_one_each
from molspec.prediction.results import Result
from molspec.server.pending import Targets
from molspec.server.service import Service, Text, arrival, in_order, refusing
from molspec.server.worker import Worker
from molspec.text import canonicalise, other_spellings

_Texts = Annotated[list[Text], FailFast(), Body(min_length=1)]
_Model = Annotated[str | None, Query(description="The first retro model if not given.")]
_AUGMENTS = 10
#: Maximum characters of a target that gets other spellings; longer ones are scored unchanged.
_LONGEST = 1000


def make_router(service: Service) -> APIRouter:
    """The routes, for an application to include."""
    router = APIRouter(prefix="/chemformer-api", tags=["Chemformer"])

    @router.post("/predict")
    async def predict(
        smiles_list: _Texts,
        request: Request,
        n_beams: int | None = None,
        n_predictions: int | None = None,
        model: _Model = None,
    ) -> list[dict[str, Any]]:
        """Answers and their log-probs, best first; newer clients call n_beams n_predictions."""
        worker = _named(service, model)
        name, n_best = "n_predictions", n_predictions
        if n_best is None:
            name, n_best = "n_beams", service.limits.usual if n_beams is None else n_beams
        with refusing("body"):
            service.limits.check_count("smiles_list", smiles_list)
        with refusing("query", name):
            config = service.config(worker, n_best=n_best)
        items = await service.for_planners(request, worker, smiles_list, config, "output", "lhs")
        return [{"input": text, **item} for text, item in zip(smiles_list, items, strict=True)]

    @router.post("/log_likelihood")
    async def log_likelihood(
        reactants: _Texts, products: _Texts, request: Request, model: _Model = None
    ) -> list[dict[str, Any]]:
        """The log-probability of each reaction, in the given spelling, or aligned."""
        return await _likelihoods(service, request, model, reactants, products, 1)

    @router.post("/compound_log_likelihood")
    async def compound_log_likelihood(
        reactants: _Texts,
        products: _Texts,
        request: Request,
        n_augments: int | None = None,
        model: _Model = None,
    ) -> list[dict[str, Any]]:
        """The log-probability of each reaction, in the likeliest of n_augments spellings.

        A model of root-aligned SMILES has its own instead.
        """
        with refusing("query", "n_augments"):
            most = service.limits.augmentations
            n_augments = min(_AUGMENTS, most) if n_augments is None else n_augments
            if not 1 <= n_augments <= most:
                raise ValueError(f"n_augments is {n_augments}: expected 1 to {most}")
        return await _likelihoods(service, request, model, reactants, products, n_augments)

    return router


def _named(service: Service, name: str | None) -> Worker:
    return service.default("retro") if name is None else service.worker(name)


def _spellings(target: str, count: int) -> list[str]:
    canonical = canonicalise(target) if count > 1 and len(target) <= _LONGEST else None
    others = [] if canonical is None else [canonical, *other_spellings(canonical, count)]
    return list(dict.fromkeys([target, *others]))[:count]


async def _likelihoods(
    service: Service,
    request: Request,
    model: str | None,
    reactants: Sequence[str],
    products: Sequence[str],
    count: int,
) -> list[dict[str, Any]]:
    """Each reaction with the log-prob of its target, in the likeliest of `count` spellings."""
    worker = _named(service, model)
    aligned = worker.model.aligned
    count = 1 if aligned else count
    is_forward = worker.model.task == "product"
    queries, targets = (reactants, products) if is_forward else (products, reactants)
    with refusing("body"):
        check_one_each("products", products, reactants, "reactants")
        service.limits.check_count("products", products)
        config = service.config(worker)

    def spellings(target: str) -> list[str]:
        """The spellings of a target; after the time limit it alone, as it gets no answer."""
        in_time = perf_counter() - arrival(request) < service.limits.seconds
        return _spellings(target, count if in_time else 1)

    spelt = [[each] for each in targets]
    if count > 1:
        spelt = await service.early(spellings, targets)
    repeated = [query for query, texts in zip(queries, spelt, strict=True) for _ in texts]
    texts = Targets([*chain.from_iterable(spelt)], aligned)
    answers = service.submit(request, worker, repeated, config, texts)
    results = iter(await in_order(answers))
    return [
        {
            "product_smiles": product,
            "reactant_smiles": reactant,
            **_likelihood([*islice(results, len(texts))]),
        }
        for reactant, product, texts in zip(reactants, products, spelt, strict=True)
    ]


def _likelihood(results: Sequence[Result]) -> dict[str, Any]:
    log_probs = [result.predictions[0].log_prob for result in results if result.predictions]
    if log_probs:
        return {"log_likelihood": max(log_probs)}
    return {"log_likelihood": None, "error": results[0].error}
