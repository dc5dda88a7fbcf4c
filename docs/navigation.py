"""The order of the documentation's pages: one list for the site, and for the test of ``docs/index.md``."""

from __future__ import annotations

#: Section to the names of its pages in ``docs/``, without ``.md``; names of root
#: pages are in capitals, and pages elsewhere are named by their path.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": (
        "README",
        "start",
        "tutorial",
        "board",
        "log",
        "examples",
        "recording",
        "from-rlloggingboard",
        "glossary",
    ),
    "How-to": (
        "map",
        "runs",
        "find",
        "compare",
        "diverge",
        "explain",
        "bisect",
        "drift",
        "update",
        "rewards",
        "prompts",
        "agents",
        "terminal",
        "agents-cli",
        "investigations",
        "python",
        "notebook",
    ),
    "Explanation": ("metrics", "findings", "lint", "gate", "broken-runs", "store", "adapters", "formats"),
    "Reference": ("cli", "sql", "settings", "api"),
    "Run it": ("install", "deploy", "remote", "scale", "alerts", "reliability", "security", "SECURITY"),
    "Change it": (
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
        "tests/bench/RESULTS",
        "rlpanel/data/README",
        "CHANGELOG",
    ),
    "中文": ("README.zh", "tutorial.zh"),
}
#: Pages that exist in the site only.
SITE_ONLY = ("api",)


def is_root_page(name: str) -> bool:
    """Return whether a page lies in the repository's root instead of in ``docs/``."""
    return name.split(".")[0].isupper() or "/" in name
