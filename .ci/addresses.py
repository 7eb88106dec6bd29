"""Writes a release's own addresses into files, in place: `addresses.py pyproject.toml README.md`.

A package index and a page of a release show no file beside the text, so links to files become
addresses of the tag's tree, and a paragraph, whose lines they would break, a single line. The
environment is that of a workflow of GitHub.
"""

import os
import re
import sys
from pathlib import Path

_REPOSITORY = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}".format_map(os.environ)
_REF = os.environ["GITHUB_REF_NAME"]
_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|#|mailto:)([^)]+\))")
#: The end of a line that the next one continues: neither is a list's, table's or code's own line.
_CONTINUED = re.compile(r"(?<=[^\n|])\n *(?=[A-Za-z`(\[\"*])(?!\* )")


def with_addresses(path: Path, text: str) -> str:
    """The text of a file with absolute links; of pyproject.toml with a home page."""
    if path.suffix == ".toml":
        return text.replace("[project.urls]", f'[project.urls]\nHomepage = "{_REPOSITORY}"')
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    for index in range(0, len(pieces), 2):  # the others are code
        joined = _CONTINUED.sub(" ", pieces[index]) if path.name == "notes.md" else pieces[index]
        pieces[index] = _LINK.sub(_absolute, joined)
    return "".join(pieces)


def _absolute(link: re.Match[str]) -> str:
    image, label, target = link.groups()
    kind = "raw" if image else "blob"
    target = target.replace(".svg)", ".svg?sanitize=true)")  # else it comes as plain text
    return f"{image}{label}{_REPOSITORY}/{kind}/{_REF}/{target.removeprefix('./')}"


for name in sys.argv[1:]:
    path = Path(name)
    text = path.read_text(encoding="utf-8")
    path.write_text(with_addresses(path, text), encoding="utf-8")
