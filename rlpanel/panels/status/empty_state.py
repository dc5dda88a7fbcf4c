"""The board without samples: how to get started, progress of reading, or a run without samples."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, ClassVar

from markupsafe import Markup

from rlpanel.panels.language.labels import tr, tr_html, trn
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_badge import problems_html
from rlpanel.panels.status.notices import Notice, bar_html
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.adapters import accepted
from rlpanel.sources.discovery.diagnose import Diagnosis
from rlpanel.sources.discovery.file_names import is_rollout_name
from rlpanel.sources.files.file_access import RemotePath, path_of
from rlpanel.store.snapshot.snapshot import Snapshot


def getting_started_html(root: str, diagnosis: Diagnosis | None) -> str:
    """Return the HTML that is shown while there are no runs.

    Parameters
    ----------
    root : str
        The root that is named; empty if none was given.
    diagnosis : Diagnosis or None
        Content of the root; None before the first scan.
    """
    if not root or diagnosis is None:
        reason = tr("Nothing to show yet") if root else tr("No folder was given")
        title = tr("No runs yet")
        return f"<h2>{title}</h2><p>{safe_text(reason)}:</p>{_commands()}{_line()}{_formats()}"
    head = (
        f"<h2>{safe_text(diagnosis.title)}</h2><p><code>{safe_text(root)}</code></p>"
        f"<p>{safe_text(diagnosis.sentence)}</p>"
    )
    return f"{head}{_seen(diagnosis)}{_hints(diagnosis)}{_line()}{_formats()}"


def _commands() -> str:
    """Return the commands that serve a folder."""
    other = tr("With Panel's own server:")
    return (
        f"<pre>rlpanel serve FOLDER</pre><p>{other}</p>"
        "<pre>RLPANEL_ROOT=FOLDER panel serve dashboards/board.py --show</pre>"
    )


def _seen(diagnosis: Diagnosis) -> str:
    rows = "".join(
        f"<li><code>{safe_text(sight.name)}</code> {safe_text(sight.what)}</li>" for sight in diagnosis.seen
    )
    if not rows:
        return ""
    if diagnosis.others:
        more = trn("and {count:,} other file", "and {count:,} other files", diagnosis.others)
        rows += f"<li>{more}</li>"
    title = tr("Seen")
    return f'<h3>{title}</h3><ul class="rl-seen">{rows}</ul>'


def _hints(diagnosis: Diagnosis) -> str:
    rows = "".join(f"<li>{safe_text(hint)}</li>" for hint in diagnosis.hints)
    return f'<ul class="rl-hints">{rows}</ul>' if rows else ""


def _line() -> str:
    """Return an example of a line, and how a trainer is made to write such lines."""
    title, trl = tr("One line per sample"), tr("TRL's trainers write such lines inside this block:")
    watched = tr_html(
        "This page watches the folder: a run appears as soon as a rank writes its first line, for example to "
        "{file}:",
        file=_code("rollout_data_rank_0.jsonl"),
    )
    required = tr_html(
        "Only {step} and one of {prompt} and {response} are required; fields that are not logged are not "
        "shown.",
        step=_code("step"), prompt=_code("prompt"), response=_code("response"),
    )  # fmt: skip
    return (
        f"<h3>{title}</h3><p>{watched}</p>"
        '<pre>{"step": 3, "prompt": "2 + 2 =", "response": "4", "reward": 1.0,\n'
        ' "response_tokens": ["4"], "logprobs": [-0.02], "ref_logprobs": [-0.11]}</pre>'
        f"<p>{required}</p><p>{trl}</p>"
        '<pre>with rlpanel.record(trainer, "runs/exp1"):\n    trainer.train()</pre>'
    )


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def _formats() -> str:
    """Return a collapsed list of all file formats that can be read."""
    rows = "".join(f"<li>{safe_text(description)}</li>" for description in accepted())
    title = tr("All file formats")
    return f'<details class="rl-kinds"><summary>{title}</summary><ul>{rows}</ul></details>'


class EmptyState(Notice):
    """Cover of the page while there are no samples: explains what is missing, and offers the demo.

    It does not replace the views: a table or plot built without a size may stay empty.

    Parameters
    ----------
    context : Context
    on_demo : callable
        Called by the button that opens the demo.
    """

    _stylesheets: ClassVar[list[str]] = [*Notice._stylesheets, read_assets("panels/status/empty_state.css")]

    def __init__(self, context: Context, on_demo: Callable[[], None]) -> None:
        super().__init__(
            buttons={"map": "", "demo": ""}, sizing_mode="stretch_width", margin=0, css_classes=["rl-stage"]
        )
        self.context, self._on_demo = context, on_demo
        context.param.watch(self._draw, ["runs", "view", "root", "root_diagnosis"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Open the demo, or the form that maps keys to fields. The message comes from the browser."""
        if message == "demo":
            self._on_demo()
        elif message == "map":
            self.context.mapping_form = "open"

    def _draw(self, *_: Any) -> None:
        context = self.context
        if context.snapshot.samples:
            self.visible = False
        elif context.runs:
            self.param.update(html=_waiting(context.snapshot), buttons={"map": "", "demo": ""}, visible=True)
        else:
            root = context.root
            if root and not context.read_only and not isinstance(path_of(root), RemotePath):
                root = os.path.abspath(root)
            html = getting_started_html(root, context.root_diagnosis)
            writes = not context.read_only
            maps = writes and context.root_diagnosis is not None and _has_records(context.root_diagnosis)
            buttons = {"map": tr("Map the fields of a file") if maps else ""}
            buttons["demo"] = tr("Open the demo run") if writes else ""
            self.param.update(html=html, buttons=buttons, visible=True)


def _has_records(diagnosis: Diagnosis) -> bool:
    """Return True if one of the files that were seen may hold records."""
    return any(is_rollout_name(PurePath(sight.name).name, any_document=True) for sight in diagnosis.seen)


def _waiting(snapshot: Snapshot) -> str:
    if not snapshot.version or not snapshot.progress.caught_up:
        title, progress = tr("Reading …"), bar_html(snapshot.progress) if snapshot.version else ""
        return f"<h2>{title}</h2>{progress}"
    title = tr("No samples yet")
    text = tr(
        "The run's files contain no complete line with a sample. New samples appear here automatically."
    )
    return f"<h2>{title}</h2><p>{text}</p>{problems_html(snapshot)}"
