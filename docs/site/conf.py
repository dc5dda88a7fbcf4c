"""Settings of Sphinx for the documentation site; ``make docs`` builds it.

The source folder is the repository, so that the relative links of the Markdown pages work here as on GitHub.
"""

from __future__ import annotations

import gettext
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pydata_sphinx_theme
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.navigation import SECTIONS, is_root_page  # noqa: E402
from docs.site import llms  # noqa: E402
from docs.site.formulas import draw_block, draw_inline  # noqa: E402
from docs.site.search_words import SearchWords  # noqa: E402
from hatch_build import repository  # noqa: E402
from rlpanel import __version__ as release  # noqa: E402

project = "rlpanel"
copyright = "the authors of rlpanel"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/upstream/*.md",
    "docs/changes/about.md",
    "docs/site/api.md",
    "tests/bench/RESULTS.md",
    "rlpanel/data/README.md",
]
exclude_patterns = [".*", "**/.*"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = "rlpanel"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
templates_path = ["templates"]
_BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
#: Address of the repository, where it is known: pages have a link to edit them.
ADDRESS = repository(_BUILD["metadata"]["hooks"]["custom"]["repository"])
#: The theme's words in Chinese, for the Chinese pages.
THEME_WORDS = gettext.translation("sphinx", Path(pydata_sphinx_theme.__file__).parent / "locale", ["zh"])
html_theme_options = {
    "use_edit_page_button": bool(ADDRESS),
    "navbar_start": ["navbar-logo", "site-version"],
    "navbar_center": [],
    "navbar_end": ["language-switch", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc", "edit-this-page"] if ADDRESS else ["page-toc"],
    "collapse_navigation": True,
}
html_context = {"edit_page_url_template": f"{ADDRESS}/edit/main/{{{{ file_name }}}}", "release": release}
# The theme's own list shows one section only; this one shows all pages under their sections.
html_sidebars = {"**": ["all-pages.html"]}
napoleon_google_docstring = False
napoleon_numpy_docstring = True
autodoc_typehints = "none"


def _document(name: str) -> str:
    if name == "api":
        return "/docs/site/api"
    return f"/{name}" if is_root_page(name) else f"/docs/{name}"


def _listed(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the sections of a front page, each with the names and documents of its pages."""
    text = (ROOT / f"{page}.md").read_text("utf-8").partition("\n### ")[2]
    found = []
    for part in text.split("\n### "):
        links = re.findall(r"\[([^]]+)\]\(([^)#\s]+)\.md\)", part)
        pages = [(name, os.path.normpath(f"docs/{path}")) for name, path in links]
        found.append((part.partition("\n")[0].strip(), pages))
    return found


def _navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the navigation to the front page, where GitHub does not show it, by the names of its links."""
    if docname != root_doc:
        return
    chinese = {page: name for _, pages in _listed(f"{root_doc}.zh") for name, page in pages}
    named = chinese | {page: name for _, pages in _listed(root_doc) for name, page in pages}
    for section, names in SECTIONS.items():
        pages = [_document(name) for name in names]
        lines = [f"{named[page[1:]]} <{page}>" if page[1:] in named else page for page in pages]
        source[0] += "\n".join(
            ["", "```{toctree}", ":hidden:", f":caption: {section}", "", *lines, "```", ""]
        )


def _languages(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Name the page in the other language for the switch in the header."""
    chinese = pagename.endswith(".zh")
    other = pagename.removesuffix(".zh") if chinese else f"{pagename}.zh"
    if other not in app.env.found_docs:
        other = root_doc if chinese else f"{root_doc}.zh"
    context["chinese_pages"] = _listed(f"{root_doc}.zh") if chinese else None
    if chinese:  # the theme's own words, and the glyphs of the browser
        context |= {"_": THEME_WORDS.gettext, "gettext": THEME_WORDS.gettext, "language": "zh-CN"}
    context["other_language_page"] = other
    context["other_language"], context["other_language_name"] = (
        ("en", "English") if chinese else ("zh", "中文")
    )


def _for_models(app: Sphinx, error: Exception | None) -> None:
    """Write the overview for language models, and the pages as Markdown."""
    if error is None:
        llms.write(ROOT, Path(app.outdir), SECTIONS, _document)


def _front(app: Sphinx, error: Exception | None) -> None:
    """Write a first page that leads to the front page."""
    target = "docs/index.html"
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
    (Path(app.outdir) / "index.html").write_text(f'{page}<a href="{target}">rlpanel</a>', "utf-8")


def setup(app: Sphinx) -> None:
    """Connect the navigation, the first page and the drawing of formulas."""
    app.connect("source-read", _navigation)
    app.connect("html-page-context", _languages)
    app.connect("build-finished", _front)
    app.connect("build-finished", _for_models)
    app.add_search_language(SearchWords)
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
