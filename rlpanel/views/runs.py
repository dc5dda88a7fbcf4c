"""Which run? The list of runs, the live badge, and what stands in for a board that has nothing yet."""

from __future__ import annotations

import time
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.sources.directory import RunInfo
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.theme import safe_text

#: A run whose last line is older than this is quiet, not live.
QUIET_AFTER = 60.0


class RunList(Viewer):
    """The runs below the root; a click selects one."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._quiet = False
        self._list = pmui.RadioButtonGroup(
            options={}, orientation="vertical", sizing_mode="stretch_width", margin=(0, 12), size="small",
            color="primary", css_classes=["rl-runs"], sx=_LIST_SX,
        )  # fmt: skip
        self._list.param.watch(self._chosen, "value")
        context.param.watch(self._draw, "runs")
        context.selection.param.watch(self._draw, "run")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._list

    def _draw(self, *_: Any) -> None:
        options = {_unique(info, self.context.runs): info.name for info in self.context.runs}
        chosen = self.context.selection.run
        self._quiet = True
        try:
            if options != self._list.options:
                self._list.options = options
            if chosen in options.values():
                self._list.value = chosen
        finally:
            self._quiet = False

    def _chosen(self, event: Any) -> None:
        if not self._quiet and event.new is not None and event.new != self.context.selection.run:
            self.context.selection.param.update(run=event.new, step=None, uid="", token=-1, follow=True)


def _unique(info: RunInfo, runs: list[RunInfo]) -> str:
    return info.label if sum(other.label == info.label for other in runs) == 1 else f"./{info.name}"


class Badge(Viewer):
    """How the selected run is: live or quiet, ranks, samples, newest step, age, bad lines."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = pn.pane.HTML("", stylesheets=[theme.CSS, _BADGE_CSS], margin=0, css_classes=["rl-badge"])
        context.param.watch(self._draw, ["snapshot", "now", "runs"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: Any) -> None:
        html = badge_html(self.context.snapshot, time.time(), self._label())
        if html != self._pane.object:  # the clock ticks once a second; most ticks change nothing
            self._pane.object = html

    def _label(self) -> str:
        name = self.context.selection.run
        return next((info.label for info in self.context.runs if info.name == name), name)


def badge_html(snapshot: Snapshot, now: float, label: str) -> str:
    """The badge as HTML."""
    if not label:
        return ""
    name = f'<span class="pill"><b>{safe_text(label)}</b></span>'
    if not snapshot.version:
        return f'{name}<span class="pill">opening …</span>'
    parts = [_state(snapshot, now)]
    if snapshot.samples:
        ranks = f"{snapshot.ranks} rank{'s' if snapshot.ranks != 1 else ''}"
        parts += [ranks, f"{snapshot.samples:,} samples", f"step {snapshot.steps.values[-1]}"]
    if snapshot.newest_line:
        parts.append(f"{age(now - snapshot.newest_line)} ago")
    return f'{name}<span class="pill">{" · ".join(parts)}</span>{_trouble(snapshot)}'


def _state(snapshot: Snapshot, now: float) -> str:
    if not snapshot.progress.caught_up:
        return f'<span class="dot kl">●</span> <b>reading {snapshot.progress.fraction:.0%}</b>'
    if now - snapshot.newest_line <= QUIET_AFTER:
        return '<span class="dot good">●</span> <b>live</b>'
    return '<span class="dot">●</span> <b>quiet</b>'


def _trouble(snapshot: Snapshot) -> str:
    """Bad lines and unreadable files, each with its reason, folded behind their number."""
    bad = "".join(
        f"<li><code>{safe_text(line.file)}:{line.line}</code> {safe_text(line.reason)}</li>"
        for line in snapshot.bad_lines[:50]
    )
    more = f"<li>and {snapshot.bad_count - 50:,} more</li>" if snapshot.bad_count > 50 else ""
    word = "bad line" if snapshot.bad_count == 1 else "bad lines"
    html = _fold(f"{snapshot.bad_count:,} {word}", bad + more, "rl-bad-lines") if snapshot.bad_count else ""
    problems = "".join(f"<li>{safe_text(problem)}</li>" for problem in snapshot.problems)
    if problems:
        count = len(snapshot.problems)
        html += _fold(f"{count} problem{'s' if count > 1 else ''}", problems, "rl-problems")
    return html


def _fold(title: str, items: str, name: str) -> str:
    return f'<details class="{name}"><summary class="pill kl">{title}</summary><ul>{items}</ul></details>'


def age(seconds: float) -> str:
    """0.3 s, 12 s, 4 min, 3 h, 2 d."""
    for bound, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < bound:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


class Stage(Viewer):
    """What is shown in place of the board while there is nothing to see: how to begin, or what is missing."""

    def __init__(self, context: Context, on_demo: Any, root: str) -> None:
        super().__init__()
        self.context = context
        self.root = root
        self._pane = pn.pane.HTML("", stylesheets=[theme.CSS, _STAGE_CSS], sizing_mode="stretch_width", margin=0)
        self._demo = pmui.Button(label="Watch the demo run", variant="contained", on_click=on_demo, margin=(12, 0),
                                 css_classes=["rl-demo"])  # fmt: skip
        self._box = pn.Column(
            self._pane, self._demo, max_width=760, margin=(60, 40), sizing_mode="stretch_width", css_classes=["rl-stage"]
        )
        context.param.watch(self._draw, ["runs", "snapshot", "message"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._box

    @property
    def needed(self) -> bool:
        """Whether the board has nothing to show."""
        return not self.context.snapshot.samples

    def _draw(self, *_: Any) -> None:
        snapshot, runs = self.context.snapshot, self.context.runs
        self._demo.visible = not runs
        if not runs:
            self._pane.object = _how_to_begin(self.root)
        elif not snapshot.progress.caught_up or not snapshot.version:
            done = snapshot.progress.fraction if snapshot.version else 0.0
            self._pane.object = f'<h2>Reading …</h2><div class="bar"><i style="width:{done:.1%}"></i></div>'
        else:
            trouble = _trouble(snapshot)
            self._pane.object = (
                "<h2>No samples yet</h2><p>The run's files hold no whole line that is a sample. "
                f"New lines appear here by themselves.</p>{trouble}"
            )


def _how_to_begin(root: str) -> str:
    where = f"<code>{safe_text(root)}</code>" if root else "the folder given"
    return (
        f"<h2>No runs yet</h2><p>Nothing below {where} looks like a rollout log. This page follows the folder: "
        "a run appears as soon as a rank writes its first line.</p>"
        "<p>Each rank appends one line a sample to a <code>.jsonl</code> file of its own:</p>"
        '<pre>{"step": 3, "prompt": "2 + 2 =", "response": "4", "reward": 1.0,\n'
        ' "response_tokens": ["4"], "logprobs": [-0.02], "ref_logprobs": [-0.11]}</pre>'
        "<p>Only <code>step</code> and one of <code>prompt</code> and <code>response</code> are needed; what is "
        "not logged is not shown. Another folder: <code>rlpanel serve FOLDER</code>.</p>"
    )


_LIST_SX = {
    "& .MuiToggleButton-root": {
        "justifyContent": "flex-start", "border": 0, "borderRadius": "7px !important", "padding": "4px 8px",
        "color": "text.secondary", "overflow": "hidden", "textOverflow": "ellipsis", "textTransform": "none",
    },
    "& .MuiButton-root": {"justifyContent": "flex-start", "textTransform": "none"},
    "maxHeight": "220px", "overflowY": "auto",
}  # fmt: skip
_BADGE_CSS = """
:host { position: relative; }
div { display: flex; gap: 10px; align-items: center; }
.pill { border: 1px solid var(--rl-line); border-radius: 7px; padding: 3px 10px; background: var(--rl-raised);
  color: var(--rl-muted); white-space: nowrap; }
.pill b { color: var(--rl-text); font-weight: 600; } .pill .dot { color: var(--rl-muted); }
.pill .dot.good { color: var(--rl-good); } .pill .dot.kl { color: var(--rl-kl); }
.pill.kl { color: var(--rl-kl); cursor: pointer; }
details { position: relative; } summary { list-style: none; }
details ul { position: absolute; z-index: 2000; top: 30px; left: 0; width: 520px; max-height: 360px; overflow: auto; margin: 0;
  padding: 10px 14px; background: var(--rl-raised); border: 1px solid var(--rl-line); border-radius: 8px; list-style: none;
  box-shadow: 0 8px 30px rgba(0,0,0,.35); color: var(--rl-text); white-space: normal; }
details li { padding: 3px 0; overflow-wrap: anywhere; } code { font-family: var(--rl-mono); font-size: 12px; }
"""
_STAGE_CSS = """
h2 { font-size: 20px; margin: 0 0 10px; } p { margin: 8px 0; color: var(--rl-text); }
code, pre { font-family: var(--rl-mono); font-size: 12px; }
pre { background: var(--rl-raised); border: 1px solid var(--rl-line); border-radius: 7px; padding: 10px 14px; white-space: pre-wrap; }
.bar { height: 6px; border-radius: 3px; background: var(--rl-line); } .bar i { display: block; height: 6px; border-radius: 3px;
  background: var(--rl-policy); }
"""
