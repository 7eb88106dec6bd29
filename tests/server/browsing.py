"""Pages of the server in a real browser, and what is wrong with how they look."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

#: A time limit in milliseconds; it is long because test machines are busy.
PATIENCE = 120_000
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1366, "height": 768}},
    "dark": {"viewport": {"width": 1366, "height": 768}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
#: Pairs of texts, or of a text and a drawing, that lie over each other; texts of less than 11
#: pixels; and pixels by which the page is wider than its window.
_FAULTS = """() => {
  const [boxes, small] = [[], []];
  const add = (name, r, inset) => r.width > 1 && boxes.push(
    { name, left: r.left + inset, right: r.right - inset,
      top: r.top + inset, end: r.bottom - inset });
  const drawings = document.querySelectorAll("svg.drawing");
  for (const each of drawings) add("drawing", each.getBoundingClientRect(), 4);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    const text = node.data.trim();
    if (!text || /style|script/i.test(parent.tagName) || !parent.getClientRects().length) continue;
    if (parent.closest(".unseen, select, [hidden]")) continue;
    const scale = parent.ownerSVGElement ? parent.getScreenCTM().a : 1;
    const size = scale * parseFloat(getComputedStyle(parent).fontSize);
    if (size < 10.99) small.push(`${text}: ${size}`);
    if (parent.closest("svg.drawing")) continue; // of one atom: they touch
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) add(text.slice(0, 30), rect, 0);
  }
  const common = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  const over = boxes.flatMap((a, index) => boxes.slice(index + 1)
    .filter((b) => common(a, b, "left", "right") > 2 && common(a, b, "top", "end") > 3)
    .map((b) => `${a.name} over ${b.name}`));
  return { over, small, wider: Math.max(0, document.documentElement.scrollWidth - innerWidth) };
}"""


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
    context = browser.new_context(accept_downloads=True, **LOOKS[look], **options)
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
