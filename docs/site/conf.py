"""Settings of Sphinx for the documentation site; ``make docs`` builds it.

The source folder is the repository, so that the relative links of the Markdown pages work here as on GitHub.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.navigation import SECTIONS, is_root_page  # noqa: E402
from docs.site.formulas import draw_block, draw_inline  # noqa: E402
from rlpanel import __version__ as release  # noqa: E402, F401

project = "rlpanel"
copyright = "the authors of rlpanel"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
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
html_theme_options = {"use_edit_page_button": False, "navbar_center": [], "collapse_navigation": True}
# The theme's own list shows one section only; this one shows all pages under their sections.
html_sidebars = {"**": ["globaltoc.html"]}
napoleon_google_docstring = False
napoleon_numpy_docstring = True
autodoc_typehints = "none"


def _document(name: str) -> str:
    if name == "api":
        return "/docs/site/api"
    return f"/{name}" if is_root_page(name) else f"/docs/{name}"


def _navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the navigation to the front page, where GitHub does not show it."""
    if docname != root_doc:
        return
    for section, names in SECTIONS.items():
        pages = "\n".join(_document(name) for name in names)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n{pages}\n```\n"


def _front(app: Sphinx, error: Exception | None) -> None:
    """Write a first page that leads to the front page."""
    target = "docs/index.html"
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
    (Path(app.outdir) / "index.html").write_text(f'{page}<a href="{target}">rlpanel</a>', "utf-8")


def setup(app: Sphinx) -> None:
    """Connect the navigation, the first page and the drawing of formulas."""
    app.connect("source-read", _navigation)
    app.connect("build-finished", _front)
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
