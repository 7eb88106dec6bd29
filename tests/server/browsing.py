"""Pages of the server in a real browser, and what is wrong with how they look."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: A time limit in milliseconds; it is long because test machines are busy.
PATIENCE = 120_000
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1366, "height": 768}},
    "dark": {"viewport": {"width": 1366, "height": 768}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
_FAULTS = Path(__file__).with_name("faults.js").read_text()


def faults(page: Any) -> dict[str, Any]:
    """The faults of how a page looks; none is {}."""
    return {name: found for name, found in page.evaluate(_FAULTS).items() if found}


@contextmanager
def opened(
    browser: Any, url: str, look: str, posted: list[str] | None = None, **options: Any
) -> Iterator[Any]:
    """A page of a fresh profile, which must have no errors and ask no other host.

    posted: gets the addresses that the page sends something to.
    """
    context = browser.new_context(
        accept_downloads=True, **LOOKS.get(look, LOOKS["light"]), **options
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("request", lambda outgoing: hosts.add(urlsplit(outgoing.url).netloc))
    if posted is not None:
        page.on("request", lambda sent: sent.method == "POST" and posted.append(sent.url))
    page.goto(url)
    yield page
    context.close()
    assert errors == []
    assert hosts <= {urlsplit(url).netloc, ""}  # a file that is saved has none
