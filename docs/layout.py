"""The rooms of the package and the imports allowed between them.

`tests/unit/test_layout.py` holds the code to this table; `docs/architecture.md` shows it as a picture.
"""

from __future__ import annotations

#: Modules that every room may import.
FLOOR = (
    "errors",
    "schema",
    "settings",
    "display_settings",
    "board_url",
    "url_values",
    "regular_files",
    "safe_files",
    "halt_file",
    "number_text",
    "slime_samples",
    "folded_html",
    "zstd",
)

#: Rooms that most panels use.
_PARTS = (
    *("panel_fixes", "texts", "panels/language", "panels/ui", "panels/texts", "panels/inputs"),
    *("panels/plots", "panels/session", "panels/export", "panels/tables"),
)

#: Room → rooms that it may import besides the floor. ``store`` stands for the modules right in that folder,
#: ``store/*`` for them and all rooms below.
ROOMS: dict[str, tuple[str, ...]] = {
    # Files and records.
    "sources/records": (),
    "sources/files": (),
    "sources/prime": ("sources/records", "sources/files"),
    "sources/spans": ("sources/records", "sources/files"),
    "sources/trajectories": ("sources/records", "sources/files", "sources/prime"),
    "sources/adapters": (
        *("sources/records", "sources/files", "sources/prime", "sources/spans", "sources/trajectories"),
    ),
    "sources/readers": ("sources/records", "sources/files", "sources/adapters"),
    "sources/inference": ("sources/records", "sources/spans", "sources/adapters"),
    "sources/discovery": (
        *("sources/records", "sources/files", "sources/prime", "sources/trajectories", "sources/adapters"),
        *("sources/readers", "sources/inference"),
    ),
    "sources/mapping": (
        *("sources/records", "sources/files", "sources/adapters", "sources/readers"),
        *("sources/inference", "sources/discovery"),
    ),
    "sources/scalars": ("sources/records", "sources/files", "sources/readers", "sources/discovery"),
    "sources/live": ("sources/files",),
    "sources/config": ("sources/files",),
    "sources/pickles": (),
    "sources": ("sources/files", "sources/discovery", "sources/scalars", "sources/pickles"),
    # Formulas.
    "metrics/engine": (),
    "metrics": ("metrics/engine",),
    # Columns and queries.
    "store/columns": ("sources/*", "metrics/*"),
    "store/cache": ("sources/*", "metrics/*", "store/columns"),
    "store/backlog": ("sources/*", "metrics/*", "store/columns", "store/cache"),
    "store/snapshot": ("sources/*", "metrics/*", "store/columns"),
    "store/index": (
        "sources/*",
        "metrics/*",
        "store/columns",
        "store/cache",
        "store/backlog",
        "store/snapshot",
    ),
    "store/query": (
        "sources/*",
        "metrics/*",
        "store/columns",
        "store/cache",
        "store/snapshot",
        "store/index",
        "texts",
    ),
    "store": (),
    # Workarounds.
    "panel_fixes": (),
    # Readable texts.
    "texts": (),
    # Explanations and rules.
    "analysis": ("sources/records", "sources/readers", "texts", "metrics/*", "store/*"),
    "drift": ("sources/config", "sources/records", "metrics/*", "store/*"),
    "update": ("sources/records", "texts", "metrics/*", "store/*", "drift", "findings/engine", "lint"),
    "findings/engine": ("metrics/*", "store/*", "analysis"),
    "findings/rules": ("metrics/*", "store/*", "analysis", "findings/engine"),
    "findings": ("sources/files", "metrics/*", "store/*", "analysis", "findings/*"),
    "bisect": ("metrics/*", "store/*", "analysis", "findings/engine"),
    "lint": (
        *("sources/config", "sources/records", "sources/readers", "texts", "metrics/*", "store/*"),
        *("analysis", "findings/engine", "findings/rules"),
    ),
    "outcomes": ("sources/records", "texts", "metrics/*", "store/*"),
    "gate": ("metrics/*", "store/*", "analysis", "findings/engine"),
    "divergence": (
        "sources/config",
        "sources/discovery",
        "metrics/*",
        "store/*",
        "analysis",
        "findings/engine",
    ),
    "investigations": ("sources/files", "store/*"),
    # Questions, and the Python interface on top of them.
    "sql": ("sources/records", "metrics/*", "store/*", "analysis"),
    "dataset": ("sources/records", "sources/readers", "metrics/*", "store/*", "sql"),
    "queries": (
        *("sources/*", "texts", "metrics/*", "store/*", "analysis", "drift", "update", "findings/*", "lint"),
        *("gate", "bisect", "divergence", "sql", "outcomes"),
    ),
    "queries/learning": (
        *("texts", "metrics/*", "store/*", "analysis", "update", "findings/engine", "queries"),
    ),
    "queries/reports": (
        *("sources/files", "sources/discovery", "store/*", "findings", "findings/engine", "investigations"),
        "queries",
    ),
    "checks": ("sources/discovery", "store/*", "findings", "findings/engine", "queries"),
    "runtime": ("store/*", "checks", "panels/session"),
    "plotting": (
        *("texts", "metrics/*", "store/*", "queries", "panel_fixes"),
        *("panels/ui", "panels/plots", "panels/timeline"),
    ),
    "api": (
        *("sources/*", "metrics/*", "store/*", "analysis", "findings/*", "sql", "queries", "queries/*"),
        *("dataset", "plotting", "runtime"),
    ),
    # The terminal.
    "terminal_ui": (
        *("sources/*", "texts", "metrics/*", "store/*", "analysis", "queries", "api", "runtime"),
    ),
    # The screen.
    "panels": (),
    "panels/language": ("metrics/*", "panel_fixes", "panels/ui"),
    "panels/ui": ("panel_fixes",),
    "panels/texts": ("store/*", "panel_fixes", "texts", "panels/language", "panels/ui", "panels/session"),
    "panels/inputs": ("panel_fixes", "panels/ui"),
    "panels/tables": ("store/*", "panel_fixes", "panels/ui"),
    "panels/plots": ("texts", "metrics/*", "store/*", "panel_fixes", "panels/language", "panels/ui"),
    "panels/session": ("sources/*", "store/*", "panel_fixes", "panels/language", "panels/ui", "panels/plots"),
    "panels/export": (
        *("metrics/*", "store/*", "findings/engine"),
        *("panel_fixes", "panels/language", "panels/ui", "panels/plots", "panels/session"),
    ),
    "panels/curves": ("metrics/*", "store/*", "analysis", *_PARTS),
    "panels/step": ("metrics/*", "store/*", *_PARTS, "panels/curves"),
    "panels/tokens": ("metrics/*", "store/*", "analysis", *_PARTS),
    "panels/rollouts": ("metrics/*", "store/*", *_PARTS, "panels/tokens"),
    "panels/samples": ("sources/records", "metrics/*", "store/*", *_PARTS),
    "panels/timeline": ("sources/records", "metrics/*", "store/*", *_PARTS),
    "panels/replay": ("analysis", *_PARTS),
    "panels/conversation": (
        *("sources/records", "texts", "metrics/*", "store/*", "analysis", *_PARTS),
        *("panels/tokens", "panels/replay"),
    ),
    "panels/findings": (
        *("store/*", "findings/*", *_PARTS),
        "panels/investigations",
        *("panels/curves", "panels/tokens", "panels/conversation"),
    ),
    "panels/sidebar": (
        *("sources/*", "metrics/*", "store/*", "findings", *_PARTS),
        *("panels/curves", "panels/samples"),
    ),
    "panels/runs": ("sources/*", "store/*", *_PARTS, "panels/sidebar"),
    "panels/mapping": ("sources/*", *_PARTS),
    "panels/status": ("sources/*", "store/*", *_PARTS, "panels/sidebar"),
    "panels/compare": (
        *("metrics/*", "store/*", "analysis", *_PARTS),
        *("panels/step", "panels/tokens", "panels/conversation", "panels/samples", "panels/sidebar"),
    ),
    "panels/groups": (
        *("metrics/*", "store/*", *_PARTS, "panels/samples", "panels/compare", "panels/conversation"),
    ),
    "panels/prompts": ("metrics/*", "store/*", *_PARTS, "panels/samples", "panels/compare"),
    "panels/lint": ("store/*", "lint", *_PARTS, "panels/explain"),
    "panels/explain": (
        *("metrics/*", "store/*", "analysis", "bisect", "findings", *_PARTS),
        *("panels/samples", "panels/sidebar", "panels/compare", "panels/tokens"),
    ),
    "panels/diverge": (
        *("sources/config", "divergence", "findings/engine", "store/*", *_PARTS),
        *("panels/compare", "panels/explain", "panels/sidebar"),
    ),
    "panels/report": (
        *(
            "sources/records",
            "metrics/*",
            "store/*",
            *_PARTS,
            "panels/curves",
            "panels/step",
            "panels/tokens",
        ),
        *("panels/samples", "panels/findings", "panels/groups"),
    ),
    "panels/update": (
        *("texts", "analysis", "update", "metrics/*", "store/*", *_PARTS),
        *("panels/explain", "panels/prompts"),
    ),
    "panels/in_flight": ("sources/live", "store/*", "queries", *_PARTS),
    "panels/investigations": (
        *("metrics/*", "store/*", "texts", "investigations", "queries", "queries/reports", *_PARTS),
        "panels/conversation",
    ),
    "panels/endings": ("store/*", "outcomes", *_PARTS, "panels/explain"),
    "panels/tree": ("store/*", "analysis", *_PARTS, "panels/replay"),
    "panels/drift": ("drift", "metrics/*", "store/*", *_PARTS, "panels/explain"),
    "panels/sample": (
        "sources/records",
        "metrics/*",
        "store/*",
        *_PARTS,
        "panels/tokens",
        "panels/conversation",
        "panels/timeline",
        "panels/samples",
        "panels/compare",
        "panels/groups",
        "panels/prompts",
        "panels/explain",
        "panels/report",
        "panels/tree",
        "panels/endings",
        "panels/investigations",
        "analysis",
        "update",
    ),
    "panels/first_view": (
        *("metrics/*", "store/*", "findings", "findings/engine", *_PARTS),
        *("panels/curves", "panels/samples", "panels/sidebar"),
    ),
    "panels/notebook": ("store/*", "queries", *_PARTS),
    "views": ("store/*", "api", "panels/*"),
    # The program.
    "recording/writer": (),
    "recording/trainers": ("recording/writer",),
    "recording": ("recording/writer", "recording/trainers"),
    "app/security": ("panel_fixes", "panels/language"),
    "app": ("sources/*", "store/*", "api", "panel_fixes", "panels/*"),
    "app/alerts": ("sources/*", "store/*", "findings/*", "app"),
    "app/board": ("sources/*", "store/*", "panel_fixes", "panels/*", "runtime", "app"),
    "app/page": ("sources/*", "panel_fixes", "panels/*", "runtime", "app/board", "app/security"),
    "app/server": (
        *("sources/*", "store/*", "panel_fixes", "panels/language", "panels/session", "runtime"),
        *("app", "app/alerts", "app/page", "app/security", "mcp_server"),
    ),
    "mcp_server": (
        "sources/discovery",
        "sources/files",
        "texts",
        "queries",
        "queries/reports",
        "runtime",
        "api",
    ),
    "cli": (
        *(
            "sources/*",
            "texts",
            "metrics/*",
            "store/*",
            "dataset",
            "findings/*",
            "lint",
            "gate",
            "investigations",
            "queries",
            "queries/*",
            "api",
        ),
        *("panels/*", "app/*", "recording", "mcp_server", "checks", "terminal_ui"),
    ),
    "pytest_plugin": ("queries", "queries/*", "api"),
    "__main__": ("cli",),
}
