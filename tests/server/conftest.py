import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from molspec.server.limits import Limits
from molspec.server.service import Service
from tests.server.serving import service, serving

LIMITS = Limits(
    queries=20, n_best=10, beam_size=12, augmentations=4, body_bytes=20_000, waiting=100
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium that is installed, driven by Playwright."""
    why = "playwright is not installed: pip install playwright"
    sync_api = pytest.importorskip("playwright.sync_api", reason=why)
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS.split())
        yield browser
        browser.close()
