"""Badge in the header with the state of the selected run: live, quiet or finished, by its newest line."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from markupsafe import Markup, escape

from rlpanel.panels.language.labels import marked, tr, tr_html, trn
from rlpanel.panels.samples.visible_rows import excluded_html
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import remark_title
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.config.config_values import setting_value
from rlpanel.sources.config.run_config import RunConfig, read_run_config
from rlpanel.store.snapshot.remarks import GUESS
from rlpanel.store.snapshot.snapshot import Snapshot

LIVE, QUIET, FINISHED = marked("live"), marked("quiet"), marked("finished")
#: Finished before the number of steps that its ``run.json`` names.
STOPPED = marked("stopped early")
#: Maximum age of the newest line of a live and of a quiet run, in seconds.
LIVE_SECONDS, QUIET_SECONDS = 60.0, 3600.0


def run_state(seconds: float) -> str:
    """Return the state of a run whose newest line is this old.

    Logs do not tell whether a training ended: after an hour without a line, a run counts as finished.
    """
    if seconds <= LIVE_SECONDS:
        return LIVE
    return QUIET if seconds <= QUIET_SECONDS else FINISHED


#: Names of the planned number of steps in a ``run.json``, and the share of them that counts as all: trainers
#: count from 0 or 1, and some log every tenth step only.
_PLANNED = ("max_steps", "total_training_steps", "total_steps", "num_train_steps", "num_steps", "num_rollout")
_ALL = 0.9


def planned_steps(config: Mapping[str, object], step: int | None) -> int | None:
    """Return the planned number of steps; None if the run names none or has nearly reached it."""
    for name, value in config.items():
        if name.rpartition(".")[2] in _PLANNED and isinstance(value, float) and value > 0:
            return int(value) if step is not None and step < _ALL * value - 1 else None
    return None


def age(seconds: float) -> str:
    """Format a duration with one unit: 12 s, 4 min, 3 h, 2 d."""
    for bound, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < bound:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


#: Number of characters at the end of a long name that always stay visible.
_TAIL = 12


class RunBadge(Html):
    """Badge of the selected run: live, quiet or finished, ranks, samples, newest step, age, bad lines."""

    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/ui/badge.css", "panels/sidebar/state_dot.css"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-badge"])
        self.context = context
        self._config = RunConfig()
        self._work: BackgroundTask[RunConfig] = BackgroundTask(self._on_config, context.threads.texts)
        context.param.watch(self._read_config, "index")
        context.param.watch(self._draw, ["view", "now", "runs", "failure"])
        self._read_config()
        self._draw()

    def _read_config(self, *_: Any) -> None:
        """Read the settings of another run."""
        self._config = RunConfig()
        self._work.stop()
        if (index := self.context.index) is not None:
            self._work.start(read_run_config(*paths) for paths in [(index.path, index.root)])

    def _on_config(self, config: RunConfig) -> None:
        self._config = config
        self._draw()

    def _draw(self, *_: Any) -> None:
        notes = self.context.notes.problems if self.context.notes is not None else ()
        context = self.context
        folder = os.path.join(context.root, context.selection.run) if context.root else ""
        html = badge_html(context.snapshot, time.time(), self._label(), context.failure, notes, folder)
        self.html = html + settings_html(self._config) if html else ""
        # Several notices need room: without it they would lie over the pages.
        notices = self.html.count("<details")
        noted = [name for least, name in ((2, "rl-noted"), (3, "rl-crowded")) if notices >= least]
        self.css_classes = ["rl-badge", *noted]

    def _label(self) -> str:
        name = self.context.selection.run
        return next((info.label for info in self.context.runs if info.name == name), name)


def badge_html(
    snapshot: Snapshot,
    now: float,
    label: str,
    failure: str = "",
    others: tuple[str, ...] = (),
    folder: str = "",
) -> str:
    """Return the badge as HTML.

    Parameters
    ----------
    snapshot : Snapshot
    now : float
        Seconds since the epoch.
    label : str
        The run's displayed name; empty without a run.
    failure : str
        The reader's error message, or empty.
    others : tuple of str
        Problems besides those of the snapshot, such as notes that were not read.
    folder : str
        The run's folder as it was given; empty if it is unknown.
    """
    if not label:
        return ""
    name = _name_html(label)
    if not snapshot.version:
        opening = tr("opening …")
        return f'{name}<span class="pill">{opening}</span>'
    parts = []
    if snapshot.samples:
        ranks = trn("{count} rank", "{count} ranks", snapshot.ranks)
        parts = [f'<span class="detail">{ranks} · </span><span>{_sample_count(snapshot)}</span>']
        step = f'<span class="detail"> · step {snapshot.steps.values[-1]}</span>'
        parts = [f"{parts[0]}{step}"]
    newest = tr("{age} ago", age=age(now - snapshot.newest_line)) if snapshot.newest_line else ""
    error = f'<span class="pill bad">reader: {safe_text(failure)}</span>' if failure else ""
    folds = (
        guesses_html(snapshot, folder)
        + remarks_html(snapshot)
        + excluded_html(snapshot)
        + problems_html(snapshot, others)
    )
    pill = _pill_text(_state(snapshot, now), " · ".join(parts), newest)
    return f'{name}<span class="pill">{pill}</span>{folds}{error}'


def _name_html(label: str) -> str:
    """Return the run's name; a long one is cut in the middle, because names often differ at their end."""
    at = len(label) - _TAIL if len(label) > 2 * _TAIL else len(label)
    front, back = safe_text(label[:at]), safe_text(label[at:])
    tail = f'<span class="back">{back}</span>' if back else ""
    name = f'<b><span class="front">{front}</span>{tail}</b>'
    return f'<span class="pill name" title="{safe_text(label)}">{name}</span>'


def _pill_text(state: str, contents: str, newest: str) -> str:
    """Join the parts of the pill; ``connection.js`` hides state and age while the connection is lost."""
    # A dot goes into the next line with what follows it, and is hidden with the state.
    middle = f'<span><span class="now"> · </span>{contents}</span>' if contents else ""
    after = f'<span class="now detail"> · {newest}</span>' if newest else ""
    return f'<span class="now">{state}</span><span class="rest">{middle}{after}</span>'


def _sample_count(snapshot: Snapshot) -> str:
    if snapshot.has_splits:
        count = tr_html(
            "{split} {samples:,} of {all_samples:,} samples",
            split=Markup("<b>{}</b>").format(snapshot.split),
            samples=snapshot.samples,
            all_samples=snapshot.all_samples,
        )
    else:
        count = escape(trn("{count:,} sample", "{count:,} samples", snapshot.samples))
    if not snapshot.has_episodes:
        return count
    # A part of its own, which goes whole where it does not fit.
    return f"{count}</span><span>" + trn(", {count:,} episode", ", {count:,} episodes", snapshot.episodes)


def _state(snapshot: Snapshot, now: float) -> str:
    if not snapshot.progress.caught_up:
        text = tr("reading {fraction:.0%}", fraction=snapshot.progress.fraction)
        return f'<span class="dot reading"></span> <b>{text}</b>'
    state = run_state(now - snapshot.newest_line)
    return f'<span class="dot {state}"></span> <b>{tr(state)}</b>'


#: Most settings of a run that the badge lists.
MAX_SETTINGS = 200


def settings_html(config: RunConfig) -> str:
    """Return the settings of a run as HTML that unfolds; empty without any. Secrets are not shown."""
    if not config.settings:
        return ""
    items = [
        Markup('<code title="{}">{}</code> {}').format(
            each.file, each.name, tr("hidden") if each.hidden else setting_value(each.value)
        )
        for each in config.settings[:MAX_SETTINGS]
    ]
    if (left := len(config.settings) - MAX_SETTINGS) > 0:
        items.append(escape(tr("{count} further settings: rlpanel settings RUN", count=left)))
    title = trn("{count} setting", "{count} settings", len(config.settings))
    return _fold(safe_text(title), "".join(f"<li>{item}</li>" for item in items), "rl-run-settings")


def remarks_html(snapshot: Snapshot) -> str:
    """Return what the numbers depend on and the files do not tell as HTML that unfolds; empty if nothing."""
    remarks = [remark for remark in snapshot.remarks if remark.kind != GUESS]
    title = "; ".join(dict.fromkeys(safe_text(remark_title(remark)) for remark in remarks))
    items = "".join(f"<li>{safe_text(remark.sentence)}</li>" for remark in remarks)
    return _fold(title, items, "rl-remarks") if items else ""


def guesses_html(snapshot: Snapshot, folder: str = "") -> str:
    """Return which keys were taken for which fields, with reasons and the command to change it, as HTML."""
    guessed = [remark for remark in snapshot.remarks if remark.kind == GUESS]
    if not guessed:
        return ""
    renamed = any(inference.renamed for inference in snapshot.inferences)
    said = tr("fields were guessed") if renamed else guessed[0].sentence
    reasons = [guess.sentence for inference in snapshot.inferences for guess in inference.guesses]
    items = [safe_text(text) for text in dict.fromkeys([*(remark.sentence for remark in guessed), *reasons])]
    command = Markup("<code>rlpanel map {}</code>").format(shlex.quote(folder or "RUN"))
    items.append(tr_html("To change it: {command}", command=command))
    return _fold(safe_text(said), "".join(f"<li>{item}</li>" for item in items), "rl-guesses")


def problems_html(snapshot: Snapshot, others: tuple[str, ...] = ()) -> str:
    """Return collapsed lists of bad lines and unreadable files, each with its reason, as HTML."""
    bad = "".join(
        f"<li><code>{safe_text(line.file)}:{line.line or f'byte {line.offset:,}'}</code> "
        f"{safe_text(line.reason)}</li>"
        for line in snapshot.bad_lines[:50]
    )
    more = tr("and {count:,} more", count=snapshot.bad_count - 50) if snapshot.bad_count > 50 else ""
    bad += f"<li>{more}</li>" if more else ""
    title = trn("{count:,} bad line", "{count:,} bad lines", snapshot.bad_count)
    html = _fold(title, bad, "rl-bad-lines") if snapshot.bad_count else ""
    listed = (*snapshot.problems, *others)
    problems = "".join(f"<li>{safe_text(problem)}</li>" for problem in listed)
    if problems:
        count = len(listed)
        html += _fold(trn("{count} problem", "{count} problems", count), problems, "rl-problems")
    return html


def _fold(title: str, items: str, name: str) -> str:
    return f'<details class="{name}"><summary class="pill kl">{title}</summary><ul>{items}</ul></details>'
