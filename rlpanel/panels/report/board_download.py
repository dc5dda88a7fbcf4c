"""The report as a download of the board's export menu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.report.report import board_html
from rlpanel.panels.report.report_contents import frozen
from rlpanel.panels.samples.query_runner import Download
from rlpanel.panels.session.context import Context
from rlpanel.store.query.samples_export import ExportPart


def board_download(context: Context, **wanted: Any) -> Download:
    """All that a context shows now as one HTML file.

    Parameters
    ----------
    context : Context
        Its selection has a step.
    **wanted
        Parameters of its `Selection` that differ.
    """
    selection = context.selection
    shown = frozen(context, uid=selection.uid or context.first, **wanted)
    name = f"{file_name(context.snapshot.name)}-step-{selection.step}.html"
    return Download(name, "text/html", f"{name}, a snapshot", _pieces(shown))


def _pieces(shown: Context) -> Iterator[ExportPart]:
    yield ExportPart(board_html(shown), 1.0)
