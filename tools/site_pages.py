"""The pages of the site, in the order of docs/README.md: tools/site and its test read them here."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_PAGE, ALL_PAGES = "README.md", "docs/README.md"


def pages(root=ROOT):
    """The names of all pages, from the root of the tree."""
    return sorted(str(path.relative_to(root)) for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def sections(root=ROOT):
    """(caption, names of pages) of each section of docs/README.md, in its order. The caption of the first one is
    empty."""
    text = (root / ALL_PAGES).read_text()
    for part in re.split(r"^## ", text, flags=re.M):
        caption, _, body = part.partition("\n")
        links = re.findall(r"\]\(([^)#]+\.md)[^)]*\)", body)
        names = [str(((root / ALL_PAGES).parent / link).resolve().relative_to(root)) for link in links]
        yield "" if caption.startswith("# ") else caption, [name for name in names if name != FIRST_PAGE]


def faults_of_navigation(root=ROOT):
    """A line for each page that docs/README.md does not name, names twice, or names although it is not there."""
    named = [FIRST_PAGE, ALL_PAGES, *(name for _, names in sections(root) for name in names)]
    there = pages(root)
    for name in sorted({*named, *there}):
        if name not in named:
            yield f"{name} is missing in {ALL_PAGES}: add a line for it"
        if name not in there:
            yield f"{ALL_PAGES} names {name}, and there is no such page"
        if named.count(name) > 1:
            yield f"{ALL_PAGES} names {name} {named.count(name)} times: keep one"
