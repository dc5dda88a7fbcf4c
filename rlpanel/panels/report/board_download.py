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


def board_download(context: Context, **overrides: Any) -> Download:
    """Return the current state of the board as a download of one HTML file.

    Parameters
    ----------
    context : Context
        Its selection must have a step.
    **overrides
        Parameters of its `Selection` to override.
    """
    selection = context.selection
    copy = frozen(context, uid=selection.uid or context.first_uid, **overrides)
    name = f"{file_name(context.snapshot.name)}-step-{selection.step}.html"
    return Download(name, "text/html", f"{name}, a snapshot", _parts(copy))


def _parts(context: Context) -> Iterator[ExportPart]:
    yield ExportPart(board_html(context), 1.0)
