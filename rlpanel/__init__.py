"""rlpanel's public names, imported lazily on first use.

A training process that only records rollouts therefore never loads panel, pandas, numpy or param.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlpanel import views
    from rlpanel.api.open_run import open_run
    from rlpanel.api.run import Run
    from rlpanel.app.page.notebook_board import board
    from rlpanel.errors import (
        LineError,
        RLPanelError,
        RunNotFound,
        SampleNotFound,
        SettingError,
        SourceChanged,
    )
    from rlpanel.halt_file import should_halt
    from rlpanel.recording import RolloutWriter, record
    from rlpanel.schema import Sample
    from rlpanel.sources.discovery.directory import discover

__version__ = "0.2.0"

_MODULE_OF = {
    "board": "rlpanel.app.page.notebook_board",
    "discover": "rlpanel.sources.discovery.directory",
    "open_run": "rlpanel.api.open_run",
    "record": "rlpanel.recording",
    "should_halt": "rlpanel.halt_file",
    "RolloutWriter": "rlpanel.recording",
    "Run": "rlpanel.api.run",
    "Sample": "rlpanel.schema",
    "RLPanelError": "rlpanel.errors",
    "RunNotFound": "rlpanel.errors",
    "SampleNotFound": "rlpanel.errors",
    "SourceChanged": "rlpanel.errors",
    "LineError": "rlpanel.errors",
    "SettingError": "rlpanel.errors",
    "views": "rlpanel.views",
}

__all__ = [
    "LineError",
    "RLPanelError",
    "RolloutWriter",
    "Run",
    "RunNotFound",
    "Sample",
    "SampleNotFound",
    "SettingError",
    "SourceChanged",
    "__version__",
    "board",
    "discover",
    "open_run",
    "record",
    "should_halt",
    "views",
]


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rlpanel' has no attribute {name!r}")
    module = importlib.import_module(_MODULE_OF[name])
    value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those not imported yet."""
    return sorted(__all__)
