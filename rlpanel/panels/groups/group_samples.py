"""One group's samples side by side: what each answered, what it earned, and what that taught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.samples.text_cache import read_texts
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.prompt_text import clean
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.step_groups import StepGroups, groups_of
from rlpanel.store.snapshot.run_view import RunView

#: Samples that are laid side by side, and characters of each answer.
MOST_SAMPLES = 64
MOST_CHARS = 4000
#: Bytes of log that are read on the event loop; more on a thread.
READ_NOW = 1 << 20

#: The logged advantage and the formulas', and how far each is from what was logged.
FORMULAS = {
    "grpo_advantage": "advantage_less_grpo",
    "dr_grpo_advantage": "advantage_less_dr_grpo",
    "rloo_advantage": "advantage_less_rloo",
}
_NUMBERS = ("reward", "advantage", *FORMULAS, "rloo_kl_advantage")
_SHORT = {
    "advantage": "logged advantage",
    "grpo_advantage": "GRPO",
    "dr_grpo_advantage": "Dr. GRPO",
    "rloo_advantage": "RLOO",
    "rloo_kl_advantage": "RLOO, KL in R",
}


class GroupCards(JSComponent):
    """A card a sample, drawn in ``group_cards.js``; a click comes back as the sample's uid."""

    cards = param.List(default=[], doc="The samples as plain objects.")
    chosen = param.String(default="", doc="Uid of the sample that is shown.")

    _esm = read_assets("panels/groups/group_cards.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/groups/group_cards.css")]


class GroupSamples(Viewer):
    """The group of the sample that is shown.

    Parameters
    ----------
    context : Context
    say : callable
        Takes what there is to say about the group.
    """

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, say: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.context, self._say = context, say
        self._work: BackgroundTask[list[dict[str, Any]]] = BackgroundTask(self._put)
        self._drawn: tuple[object, ...] = ()
        self._fit = pn.pane.HTML(
            "", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(2, 18), css_classes=["rl-fit"]
        )
        self._cards = GroupCards(
            sizing_mode="stretch_width", margin=(4, 14, 12, 14), css_classes=["rl-group-cards"]
        )
        self._cards.on_msg(lambda event: self._picked(event.data))
        self._column = pn.Column(self._fit, self._cards, sizing_mode="stretch_width", margin=0)
        watch_step(context, self._draw)
        context.param.watch(self._draw, "sample")
        context.display.param.watch(self._draw, "pad_token")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context, sample = self.context, self.context.sample
        if not self.active:
            return
        view, snapshot = context.view, context.snapshot
        groups = groups_of(view, sample.step) if sample is not None else None
        at = groups.holding(sample.uid) if groups is not None and sample is not None else None
        self._fit.visible = self._cards.visible = at is not None
        if sample is None or groups is None or at is None or context.index is None:
            self._work.stop()
            self._drawn = ()
            self._say("this sample is in no group" if sample is not None else "no sample selected")
            return
        self._cards.chosen = sample.uid
        rows = groups.members[at]
        self._say(_in_words(groups, at))
        drawn = (snapshot.name, tuple(snapshot.uids(rows)), context.display.pad_token)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._work.stop()
        self._fit.object = _fit_html(view, snapshot.rows_of(sample.step))
        shown = rows[:MOST_SAMPLES]
        made = _cards(context.index, view, shown, context.display.pad_token)
        if snapshot.place("length")[shown].sum() <= READ_NOW:
            self._put(next(made))
        else:
            self._cards.cards = []
            self._work.start(made)

    def _put(self, cards: list[dict[str, Any]]) -> None:
        self._cards.cards = cards

    def _picked(self, uid: Any) -> None:
        if isinstance(uid, str) and any(card["uid"] == uid for card in self._cards.cards):
            self.context.choose_sample(uid)


def _cards(
    index: RunIndex, view: RunView, rows: np.ndarray, pad_token: str
) -> Iterator[list[dict[str, Any]]]:
    """The samples as the browser takes them; it shows texts as texts, never as HTML."""
    snapshot = view.snapshot
    names = [name for name in _NUMBERS if snapshot.has_number(name) or name in view.derived]
    values = {name: view.values(name, rows) for name in names}
    texts = read_texts(index, snapshot, rows)
    yield [
        {
            "uid": uid,
            "response": clean(text.get("response", text.get("prompt", "")), pad_token)[:MOST_CHARS],
            "numbers": [
                [
                    _SHORT.get(name, describe(name).label),
                    number(float(values[name][place]), sign=name != "reward"),
                    describe(name).tip,
                    name,
                ]
                for name in names
            ],
        }
        for place, (uid, text) in enumerate(zip(snapshot.uids(rows), texts, strict=True))
    ]


def _in_words(groups: StepGroups, at: int) -> str:
    """The group's numbers in a line."""
    said = [f"group {groups.names[at][:40]}", f"{len(groups.members[at]):,} samples"]
    got = {name: float(values[at]) for name, values in groups.values.items()}
    if "group_mean" in got:
        said.append(f"mean {number(got['group_mean'])} ± {number(got['group_std'])}")
        said.append(f"{number(got['group_worst'])} to {number(got['group_best'])}")
        said.append(f"{got['group_pass_rate']:.0%} pass")
        said += [f"no signal, {groups.states[at]}"] if got["group_zero_variance"] else []
    if "group_diversity" in got:
        said.append(f"{got['group_diversity']:.0%} distinct")
    if len(groups.members[at]) > MOST_SAMPLES:
        said.append(f"the first {MOST_SAMPLES} shown")
    return " · ".join(said)


def _fit_html(view: RunView, rows: np.ndarray) -> str:
    """How far the logged advantages of the step are from each formula's."""
    off = {name: view.values(less, rows) for name, less in FORMULAS.items() if less in view.derived}
    most = {name: float(np.nanmax(np.abs(d))) for name, d in off.items() if np.isfinite(d).any()}
    if not most or not view.snapshot.has_number("advantage"):
        return ""
    said = ", ".join(
        f'<span title="{safe_text(describe(FORMULAS[name]).tip)}">{number(value)} from {_SHORT[name]}</span>'
        for name, value in sorted(most.items(), key=lambda pair: pair[1])
    )
    return f'<span class="note">Logged advantages of the step differ by at most {said}.</span>'
