"""How Sphinx makes the site: tools/site runs it.

The pages stay where they are in the tree, and the site has the same folders. Sphinx sees the navigation at the end of
README.md, made from docs/README.md. A link to a file of the tree that is no page leads to a copy of the file, or to a
repository (`repository`, an address to which the file's name is appended)."""

import os
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from site_pages import ALL_PAGES, FIRST_PAGE, ROOT, pages, sections  # noqa: E402

project = "Gravel"
extensions = ["myst_parser"]
root_doc = FIRST_PAGE.removesuffix(".md")
include_patterns = pages()
exclude_patterns = ["build*", ".*", "dist"]
myst_heading_anchors = 6
highlight_language = "none"
nitpicky = True

html_theme = "furo"
html_title = "Gravel"
html_static_path = ["gravel.css"]
html_css_files = ["gravel.css"]
templates_path = ["."]
html_sidebars = {
    "**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
           "reference_link.html", "sidebar/scroll-end.html"]
}
html_copy_source = False
html_use_index = False
# Summaries are fetched from the pages, which a browser refuses to do from the disk.
html_show_search_summary = False

linked_files = set()


def add_navigation(_, name, source):
    if name != root_doc:
        return
    for caption, names in [("", [ALL_PAGES]), *sections()]:
        entries = "\n".join(f"/{page.removesuffix('.md')}" for page in names)
        option = f":caption: {caption}\n" if caption else ""
        source[0] += f"\n```{{toctree}}\n:hidden:\n{option}\n{entries}\n```\n"


class LinksToFiles(SphinxTransform):
    """Links to files that are no pages: MyST would offer them as downloads."""

    default_priority = 100

    def apply(self):
        for link in list(self.document.findall(addnodes.download_reference)):
            name = self.env.relfn2path(link["reftarget"], self.env.docname)[0]
            if self.config.repository:
                address = f"{self.config.repository.rstrip('/')}/{name}"
            else:
                linked_files.add(name)
                address = os.path.relpath(copy_of(name), Path(self.env.docname).parent)
            link.replace_self(nodes.reference("", "", *link.children, refuri=address))


class Colours(SphinxTransform):
    """Indented blocks do not say their language. C++ has semicolons and braces at the ends of lines, and shells start
    programs."""

    default_priority = 100
    programs = (r"ucx-run|mpirun|srun|torchrun|gravel-[\w+]+|python3?|pip|meson|ninja|sudo|perf|nsys|ps|"
                r"(tools|bench|build|test)/[\w/-]+")

    def apply(self):
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "none") == "none":
                if re.search(r"[;{}]( +//.*)?$", block.astext(), re.M):
                    block["language"] = "cpp"
                elif re.match(rf"([A-Z_]+=\S+ )*({self.programs})( +[^( ]|\n|$)", block.astext()):
                    block["language"] = "sh"


def copy_of(name):
    """The name of the copy. A browser shows a text whose name says that it is one."""
    return name if Path(name).suffix else f"{name}.txt"


def name_reference(app, _page, _template, context, _document):
    """For reference_link.html."""
    context["has_reference"] = app.config.has_reference


def finish(app, failure):
    if failure:
        return
    for name in linked_files:
        target = Path(app.outdir) / copy_of(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app):
    app.add_config_value("repository", "", "env")
    app.add_config_value("has_reference", False, "html", types=[bool, str])
    app.add_transform(LinksToFiles)
    app.add_transform(Colours)
    app.connect("source-read", add_navigation)
    app.connect("html-page-context", name_reference)
    app.connect("build-finished", finish)
