"""Links from one document to another lead somewhere."""

import os
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
EXTENSIONS = re.compile("/_ext/|/ext/|/compat/")


def anchors(document):
    """What a forge makes of the headings: lower case, hyphens for blanks, no other signs."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
    prose = re.sub(r"`[^`\n]*`", "", prose)  # kernel[grid, block](...) is code
    links = re.findall(r"\]\(([^)\s]+)\)", prose)
    for link in links:
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        if "KERNBRIDGE_TEST_ALONE" in os.environ and EXTENSIONS.search(path):
            continue  # they are deleted there
        target = document.parent / path if path else document
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"
