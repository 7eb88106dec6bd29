from collections.abc import Iterator

import httpx
import pytest

from molspec.server.limits import Limits
from molspec.server.service import Service
from tests.server.serving import service, serving

LIMITS = Limits(
    queries=20, n_best=10, beam_size=12, augmentations=4, body_bytes=20_000, waiting=100
)


@pytest.fixture(scope="session")
def served() -> Service:
    """The two tiny models, `retro` and `other`, that `client` queries."""
    return service(LIMITS)


@pytest.fixture(scope="session")
def url(served: Service) -> Iterator[str]:
    with serving(served) as url:
        yield url


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client
