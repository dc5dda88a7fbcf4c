"""The samples of a group: cards with their texts side by side, or for agents one row per rollout.

A rollout that was discarded stands among them and is marked, so that nothing is missing in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import param
from markupsafe import Markup

from rlpanel.number_text import number, plus_minus
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.compare.siblings import rollout_summary, shared_characters, whole_group
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr, tr_html, trn
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, read_texts, settings_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.step_groups import StepGroups, groups_of
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.agent_line import without_markup
from rlpanel.texts.prompt_parts import TextStyle, clean
from rlpanel.texts.shorten import last_line, one_line

# -- group rollouts ------------------------------------------------------------------------------------
# Rows of a group of agents: numbers of each rollout, its end, its last line, its own words.
#
# A rollout that was discarded has a row as well, so that nothing is missing in silence.


#: Numbers of a row; those of which nothing is logged are left out.
_ROLLOUT_NUMBERS = ("reward", "advantage", "turns", "tool_errors", "seconds", "response_length")
_TITLES = {"tool_errors": marked("errors"), "seconds": marked("seconds"), "response_length": marked("length")}

#: A sample as the browser draws it: uid, numbers, and its text or some lines of it.
Card = dict[str, Any]


def are_agents(view: RunView, rows: np.ndarray) -> bool:
    """Return True if one of the samples has several turns or calls a tool."""
    return any(rollout_summary(view.snapshot, row) for row in rows.tolist())


def read_rollouts(index: RunIndex, view: RunView, rows: np.ndarray, style: TextStyle) -> Iterator[list[Card]]:
    """Yield a row for each rollout of a group of agents, once; the browser shows the texts as text."""
    snapshot = view.snapshot
    texts = [
        clean(text.get("response", text.get("prompt", "")), style)
        for text in read_texts(index, snapshot, rows)
    ]
    names = [name for name in _ROLLOUT_NUMBERS if snapshot.has_number(name) or name in view.derived]
    values = {name: view.values(name, rows) for name in names}
    statuses = _statuses(snapshot, rows)
    has_status = any(status != "–" for status in statuses)
    yield [
        {
            "uid": uid,
            "numbers": [
                [tr("rollout"), str(place + 1), tr("Place of the rollout in its group"), "rollout"],
                *(number_entry(name, float(values[name][place])) for name in names),
                *([[tr("status"), status, tr("How the rollout ended"), "status"]] if has_status else []),
            ],
            "lines": [[tr("last line"), without_markup(last_line(texts[place]))], [tr("parts with"), own]],
        }
        for place, (uid, status, own) in enumerate(
            zip(snapshot.uids(rows), statuses, own_words(texts), strict=True)
        )
    ]


def number_entry(name: str, value: float, label: str = "") -> list[str]:
    """Return label, text, tooltip and name of a number."""
    label = label or _TITLES.get(name, described(name).label)
    return [tr(label), number(value, sign=name not in _UNSIGNED), described(name).tip, name]


#: Numbers that are written without a plus sign.
_UNSIGNED = ("reward", "turns", "tool_errors", "seconds", "response_length")


def _statuses(snapshot: Snapshot, rows: np.ndarray) -> list[str]:
    """Return how each rollout ended; one that was discarded says so if its status does not."""
    known = snapshot.label("status", rows) if "status" in snapshot.labels else [None] * len(rows)
    counts = snapshot.alive[rows].tolist()
    return [
        tr("discarded") if not here and status in ("ok", "truncated", None) else status or "–"
        for status, here in zip(known, counts, strict=True)
    ]


def own_words(texts: Sequence[str]) -> list[str]:
    """Return for each text its first line, as far as no other text begins like it up to there.

    In the order of the alphabet, the text that shares the longest beginning stands before or after it.
    """
    order = sorted(range(len(texts)), key=lambda at: texts[at])
    pairs = [shared_characters(texts[a], texts[b]) for a, b in pairwise(order)]
    found = [""] * len(texts)
    for at, before, after in zip(order, [0, *pairs], [*pairs, 0], strict=True):
        text, shared = texts[at], max(before, after)
        start = text.rfind("\n", 0, shared) + 1
        found[at] = one_line(text[start:]) if shared < len(text) else tr("nothing of its own")
    return found


def discarded_text(snapshot: Snapshot, rows: np.ndarray, count: int) -> list[str]:
    """Return how many rollouts of a group are left, and why the others do not count; empty if all count."""
    if not len(rows):
        return []
    status = snapshot.label("status", rows) if "status" in snapshot.labels else []
    failed = status.count("environment_error")
    left_out, reasons = len(rows) - failed, []
    if left_out:
        one, many = "{count:,} was discarded by the trainer", "{count:,} were discarded by the trainer"
        reasons.append(trn(one, many, left_out))
    if failed:
        one, many = "{count:,} failed by its environment", "{count:,} failed by their environment"
        reasons.append(trn(one, many, failed))
    names = {"left": count - len(rows), "count": count, "why": "; ".join(reasons)}
    return [tr("{left:,} of {count:,} rollouts; {why}", **names)]


# -- group samples -------------------------------------------------------------------------------------


#: Maximum number of samples side by side, and of characters of each response.
MAX_SAMPLES = 64
MAX_CHARS = 4000
#: Up to this many bytes of log are read on the event loop, more on a thread.
READ_NOW = 1 << 20

#: Advantage computed by each formula, and the column with its difference to the logged advantage.
FORMULAS = {
    "grpo_advantage": "advantage_less_grpo",
    "dr_grpo_advantage": "advantage_less_dr_grpo",
    "rloo_advantage": "advantage_less_rloo",
}
_NUMBERS = ("reward", "advantage", *FORMULAS, "rloo_kl_advantage", "response_length", "seconds")
_SHORT = {
    "advantage": marked("logged advantage"),
    "grpo_advantage": "GRPO",
    "dr_grpo_advantage": "Dr. GRPO",
    "rloo_advantage": "RLOO",
    "rloo_kl_advantage": "RLOO, KL in R",
}


class GroupSamples(Component):
    """Cards of the selected sample's group, drawn by ``group_cards.js``; a click selects the sample.

    Parameters
    ----------
    context : Context
    show_note : callable
        Shows a line of text about the group.
    """

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")
    fit = param.String(default="", doc="How well the logged advantages fit each formula, as HTML.")
    cards = param.List(default=[], doc="The samples as plain objects.")
    chosen = param.String(default="", doc="Uid of the selected sample.")

    _esm = read_assets("panels/ui/dom.js", "panels/groups/group_cards.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/groups/group_cards.css")]

    def __init__(self, context: Context, show_note: Callable[[str], None]) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0, css_classes=["rl-group-cards"])
        self.context, self._show_note = context, show_note
        self._work: BackgroundTask[list[Card]] = BackgroundTask(self._show_cards, context.threads.views)
        self._drawn: tuple[object, ...] = ()
        watch_step(context, self._draw)
        context.param.watch(self._draw, "sample")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")

    def receive(self, message: Any) -> None:
        """Select the sample whose uid the browser sends, or read it beside the selected one."""
        beside = isinstance(message, dict)
        uid, sample = message.get("beside") if beside else message, self.context.sample
        if not isinstance(uid, str) or all(card["uid"] != uid for card in self.cards):
            return
        if not beside:
            self.context.choose_sample(uid)
        elif sample is not None and uid != sample.uid:
            self.context.read_beside(sample.uid, uid)

    def _draw(self, *_: Any) -> None:
        context, sample = self.context, self.context.sample
        if not self.active:
            return
        view, snapshot = context.view, context.snapshot
        groups = groups_of(view, sample.step) if sample is not None else None
        group = groups.index_of(sample.uid) if groups is not None and sample is not None else None
        every = whole_group(snapshot, sample) if sample is not None else np.empty(0, int)
        discarded = every[~snapshot.alive[every]]
        if sample is None or context.index is None or (group is None and not len(discarded)):
            self._work.stop()
            self._drawn = ()
            self.param.update(fit="", cards=[])
            self._show_note(
                tr("No sample selected")
                if sample is None
                else tr("Group {group} has no other sample at this step", group=sample.group)
                if sample.group
                else tr("This sample is in no group")
            )
            return
        self.chosen = sample.uid
        rows = every if groups is None or group is None else np.union1d(groups.members[group], discarded)
        numbers = _summary(groups, group) if groups is not None and group is not None else []
        self._show_note(" · ".join([*numbers, *discarded_text(snapshot, discarded, len(rows))]))
        key = (snapshot.name, tuple(snapshot.uids(rows)), settings_style(context.display))
        if key == self._drawn:
            return
        self._drawn = key
        self._work.stop()
        self.fit = str(_fit_html(view, snapshot.rows_of(sample.step)))
        visible = rows[:MAX_SAMPLES]
        read = read_rollouts if are_agents(view, visible) else _read_cards
        results = read(context.index, view, visible, settings_style(context.display))
        if snapshot.metadata("length")[visible].sum() <= READ_NOW:
            self._show_cards(next(results))
        else:
            self.cards = []
            self._work.start(results)

    def _show_cards(self, cards: list[Card]) -> None:
        self.cards = cards


def _read_cards(index: RunIndex, view: RunView, rows: np.ndarray, style: TextStyle) -> Iterator[list[Card]]:
    """Yield the cards of the samples, once. The browser shows their texts as text, never as HTML."""
    snapshot = view.snapshot
    names = [name for name in _NUMBERS if snapshot.has_number(name) or name in view.derived]
    values = {name: view.values(name, rows) for name in names}
    texts = read_texts(index, snapshot, rows)
    yield [
        {
            "uid": uid,
            "discarded": "" if snapshot.alive[rows[i]] else tr("discarded"),
            "response": clean(text.get("response", text.get("prompt", "")), style)[:MAX_CHARS],
            "numbers": [number_entry(name, float(values[name][i]), _SHORT.get(name, "")) for name in names],
        }
        for i, (uid, text) in enumerate(zip(snapshot.uids(rows), texts, strict=True))
    ]


def _summary(groups: StepGroups, group: int) -> list[str]:
    """Return the group's numbers as parts of one line."""
    parts = [
        tr("Group {group}", group=groups.names[group][:40]),
        tr("{count:,} samples", count=len(groups.members[group])),
    ]
    values = {name: float(column[group]) for name, column in groups.values.items()}
    if "group_mean" in values:
        parts.append(
            tr("mean reward {plus_minus}", plus_minus=plus_minus(values["group_mean"], values["group_std"]))
        )
        parts.append(
            tr(
                "range {lowest} to {highest}",
                lowest=number(values["group_worst"]),
                highest=number(values["group_best"]),
            )
        )
        parts.append(tr("pass rate {rate:.0%}", rate=values["group_pass_rate"]))
        parts += (
            [tr("no learning signal ({reason})", reason=groups.states[group])]
            if values["group_zero_variance"]
            else []
        )
    if "group_diversity" in values:
        parts.append(tr("{share:.0%} distinct responses", share=values["group_diversity"]))
    if len(groups.members[group]) > MAX_SAMPLES:
        parts.append(tr("first {count} shown", count=MAX_SAMPLES))
    return parts


def _fit_html(view: RunView, rows: np.ndarray) -> str:
    """Return HTML with the largest difference between the step's logged advantages and each formula."""
    differences = {name: view.values(less, rows) for name, less in FORMULAS.items() if less in view.derived}
    most = {name: float(np.nanmax(np.abs(d))) for name, d in differences.items() if np.isfinite(d).any()}
    if not most or not view.snapshot.has_number("advantage"):
        return ""
    largest = Markup(", ").join(
        Markup('<span title="{}">{}</span>').format(
            described(FORMULAS[name]).tip,
            tr("{value} from {name}", value=number(value), name=tr(_SHORT[name])),
        )
        for name, value in sorted(most.items(), key=lambda pair: pair[1])
    )
    text = tr_html("Logged advantages of this step differ by at most {largest}.", largest=largest)
    return Markup('<span class="note">{}</span>').format(text)
