"""The order of the documentation's pages: one list for the site, and for the test of ``docs/index.md``."""

from __future__ import annotations

#: Section to the names of its pages in ``docs/``, without ``.md``; names of root
#: pages are in capitals, and pages elsewhere are named by their path.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Tutorials": ("start", "tutorial", "from-rlloggingboard"),
    "How to record": ("examples", "recording", "map"),
    "How to find a cause": (
        "runs",
        "find",
        "compare",
        "diverge",
        "explain",
        "bisect",
        "drift",
        "update",
        "rewards",
    ),
    "How to check": ("lint", "gate", "alerts"),
    "How to ask": ("terminal", "python", "notebook", "agents-cli", "investigations"),
    "How to run it": ("install", "deploy", "remote"),
    "Explanation": (
        "broken-runs",
        "agents",
        "prompts",
        "store",
        "scale",
        "formats",
        "reliability",
        "security",
        "SECURITY",
    ),
    "Reference": (
        "board",
        "log",
        "findings",
        "metrics",
        "cli",
        "sql",
        "settings",
        "adapters",
        "glossary",
        "api",
    ),
    "Change it": (
        "README",
        "CONTRIBUTING",
        "RELEASING",
        "CODE_OF_CONDUCT",
        "architecture",
        "docs/decisions/ragged-arrays",
        "docs/decisions/own-reader",
        "docs/decisions/one-reader-thread",
        "docs/decisions/immutable-snapshots",
        "docs/decisions/panel-as-transport",
        "docs/decisions/columns-in-memory",
        "docs/decisions/texts-stay-in-logs",
        "docs/decisions/episodes-count-once",
        "docs/decisions/sql-in-a-child-process",
        "docs/decisions/findings-claim-their-evidence",
        "docs/decisions/index-beside-the-log",
        "docs/decisions/plots-by-a-browser",
        "docs/upstream/bokeh-early-options",
        "docs/upstream/bokeh-held-callbacks",
        "docs/upstream/bokeh-pages-being-built",
        "docs/upstream/bokeh-printf-minus",
        "docs/upstream/bokeh-returned-models",
        "docs/upstream/bokeh-visual-styles",
        "docs/upstream/holoviews-sheets",
        "docs/upstream/panel-esm-updates",
        "docs/upstream/panel-notebook-views",
        "docs/upstream/panel-notification-views",
        "docs/upstream/panel-row-width",
        "docs/upstream/panel-unsent-changes",
        "docs/changes/about",
        "tests/bench/RESULTS",
        "rlpanel/data/README",
        "CHANGELOG",
    ),
    "中文": (
        "index.zh",
        "README.zh",
        "install.zh",
        "start.zh",
        "tutorial.zh",
        "log.zh",
        "cli.zh",
        "findings.zh",
    ),
}
#: Pages that exist in the site only.
SITE_ONLY = ("api",)


def is_root_page(name: str) -> bool:
    """Return whether a page lies in the repository's root instead of in ``docs/``."""
    return name.split(".")[0].isupper() or "/" in name
