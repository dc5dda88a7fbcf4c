"""Fields of the page *Update*: rewards, groups, constants of a loss, and phrases of the next steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import panel as pn
from panel.viewable import Viewer

from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.panels.explain.link_rows import caption
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field, slider_field, text_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.update.compare_losses import LossOutcome
from rlpanel.update.loss_algorithms import ALGORITHMS, AVERAGING_FORMULAS, UpdateAlgorithm
from rlpanel.update.phrase_weights import NextSteps, next_steps
from rlpanel.update.update_anatomy import WeightRow
from rlpanel.update.update_study import (
    OF_SAMPLES,
    UpdateStudy,
    changed_loss,
    loss_text,
    other_losses,
    parsed_loss,
)

# -- loss controls -------------------------------------------------------------------------------------
# Fields of the page *Update*: other rewards and groups, constants of a loss, and the label of the sums.


#: Constants with a slider, and their labels.
_SLIDERS = {
    "epsilon": marked("clip range below 1"),
    "epsilon_high": marked("clip range above 1"),
    "beta": marked("weight of the KL term"),
}
#: Largest values of sliders, if the usual value is smaller than a tenth of it.
_ENDS = {"epsilon": 1.0, "epsilon_high": 1.0, "beta": 0.2}


class LossControls(Viewer):
    """Fields for the chosen loss; its name and constants are in the address.

    Parameters
    ----------
    context : Context
    show : callable
        Called when other results are known.
    """

    def __init__(self, context: Context, show: Callable[[], None]) -> None:
        super().__init__()
        self.context, self._show_results = context, show
        self._study: UpdateStudy | None = None
        self._losses: Sequence[LossOutcome] = ()
        self._changed: LossOutcome | None = None
        self._problem, self._updating = "", False
        #: Rewards and groups with which the losses were compared last.
        self._asked: dict[str, float | str | bool] = {}
        self._work: BackgroundTask[LossOutcome | str] = BackgroundTask(
            self._on_changed, context.threads.views
        )
        self._sums: BackgroundTask[Sequence[LossOutcome] | str] = BackgroundTask(
            self._on_sums, context.threads.views
        )
        self._by = select_field("update-by", tr("Sum weight by"), 170, options={tr("length"): "length"})
        self._averaging = select_field("update-averaging", tr("Averaging of the loss"), 200)
        usual = next(iter(AVERAGING_FORMULAS))
        self._averaging.param.update(options=list(AVERAGING_FORMULAS), value=usual)
        self._flat = pn.widgets.Checkbox(
            label=tr("leave out groups of equal rewards"), align="center", margin=(0, 8),
            css_classes=["rl-update-flat"],
        )  # fmt: skip
        self._sliders = {
            name: slider_field(
                f"update-{name}",
                tr(label),
                start=0.0,
                end=1.0,
                step=0.01,
                format="0.0000",
                width=190,
                margin=(4, 8),
            )
            for name, label in _SLIDERS.items()
        }
        self._samples = {
            "reward_weights": text_field(
                "update-weights", tr("Other weights of the reward's parts"), width=220
            ),
            "groups": text_field(
                "update-groups", tr("Only groups with this mean reward"), "0.1..0.9", width=110
            ),
        }
        for text in self._samples.values():
            text.param.watch(self._on_samples, "value")
        self._by.param.watch(self._on_by, "value")
        for field in (self._averaging, self._flat):
            field.param.watch(self._on_field, "value")
        for slider in self._sliders.values():
            slider.param.watch(self._on_field, "value_throttled")
        self._constants_row = FieldRow(
            *self._sliders.values(), self._averaging, self._flat, margin=(6, 12, 12, 12), visible=False
        )
        self._column = pn.Column(
            FieldRow(
                self._by,
                pn.Row(caption(tr("reward weights")), self._samples["reward_weights"], margin=0),
                pn.Row(caption(tr("groups with a mean reward in")), self._samples["groups"], margin=0),
                margin=(6, 12, 0, 12),
            ),
            self._constants_row, margin=0,
            sizing_mode="stretch_width", css_classes=["rl-update-controls"],
        )  # fmt: skip

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- what is shown ---------------------------------------------------------------------------

    @property
    def by(self) -> str:
        """Label by whose values the weight is summed; ``length`` for ranges of the length."""
        return str(self._by.value or "length")

    @property
    def loss(self) -> str:
        """Name of the chosen loss; empty for none."""
        return self._parsed()[0]

    @property
    def constants(self) -> dict[str, float | str | bool]:
        """Constants of the chosen loss that differ from its usual ones."""
        return self._parsed()[1]

    @property
    def _of_samples(self) -> dict[str, float | str | bool]:
        """Other rewards, and groups that are left out."""
        return {key: value for key, value in self.constants.items() if key in OF_SAMPLES}

    def _parsed(self) -> tuple[str, dict[str, float | str | bool]]:
        try:
            name, constants = parsed_loss(self.context.selection.loss)
        except SettingError:
            return "", {}
        if name and name not in ALGORITHMS:
            return "", {}
        return name, {key: value for key, value in constants.items() if name or key in OF_SAMPLES}

    @property
    def outcomes(self) -> list[LossOutcome]:
        """The run's own loss and the others; the chosen one has its constants."""
        changed = self._changed
        return [
            changed
            if changed is not None and not each.is_own and each.algorithm.name == changed.algorithm.name
            else each
            for each in self._losses
        ]

    @property
    def heaviest(self) -> str:
        """Category with the largest share of the weight by the first loss that has weight."""
        mass = next((each.mass for each in self._losses if each.mass), None) or {}
        return max(mass, key=lambda name: mass[name], default="")

    @property
    def words(self) -> str:
        """Note above the rows."""
        note = tr(
            "The same samples and logprobs under other losses; nothing is sampled again. The bar is the "
            "effective number of samples. A click chooses a loss, whose constants can then be changed. The "
            "last column is the share of the weight with this {label}.",
            label=tr("length") if self.by == "length" else self.by,
        )
        if self._of_samples:
            note += " " + tr("Other rewards and groups hold for all losses but the first one.")
        return f"{note} {self._problem}" if self._problem else note

    def choose(self, name: str) -> None:
        """Choose a loss, with its usual constants; other rewards and groups stay."""
        self.context.selection.loss = loss_text(name, self._of_samples)

    # -- changes ---------------------------------------------------------------------------------

    def show_study(self, study: UpdateStudy) -> None:
        """Show the fields of the chosen loss, and compute it with its constants."""
        if study is not self._study:
            self._losses, self._asked = study.losses, {}
        self._study, self._changed, self._problem = study, None, ""
        batch, name = study.batch, self.loss
        self._updating = True
        labels = ["length", *(batch.labels if batch is not None else ())]
        self._by.param.update(
            options={tr("length") if label == "length" else label: label for label in labels},
            value=self.by if self.by in labels else "length",
        )
        if name:
            self._show_constants(ALGORITHMS[name])
        for key, text in self._samples.items():
            text.value = str(self.constants.get(key, ""))
        parts = {} if batch is None else batch.parts
        usual = {} if batch is None else batch.part_weights
        example = ",".join(f"{part}={number(usual.get(part, 1.0))}" for part in list(parts)[:2])
        self._samples["reward_weights"].param.update(placeholder=example, disabled=not parts)
        self._constants_row.visible = bool(name)
        self._updating = False
        try:
            parsed_loss(self.context.selection.loss)
        except SettingError as error:
            self._problem = str(error)
        if self._of_samples != self._asked:
            self._asked = self._of_samples
            self._compare()
        elif name and self.constants:
            self._start()

    def _show_constants(self, usual: UpdateAlgorithm) -> None:
        given = self.constants
        for name, slider in self._sliders.items():
            value = float(getattr(usual, name))
            small = 0 < value < _ENDS[name] / 10
            end = max(value * 8 if small else _ENDS[name], float(given.get(name, 0.0)), value)
            slider.param.update(
                start=0.0, end=end, step=end / 100, value=float(given.get(name, value)),
                visible=name == "beta" or usual.clip != "none",
            )  # fmt: skip
        self._averaging.value = given.get("averaging", usual.averaging)
        self._flat.value = bool(given.get("drop_flat", usual.drop_flat))

    def _on_field(self, *_: Any) -> None:
        """Write the constants that differ from the usual ones into the address."""
        name = self.loss
        # A browser that builds the fields sends their first values back.
        if self._updating or not name or not self._constants_row.visible:
            return
        usual = ALGORITHMS[name]
        values: dict[str, float | str | bool] = {
            key: round(float(slider.value or 0.0), 6) for key, slider in self._sliders.items()
        }
        values |= {"averaging": str(self._averaging.value), "drop_flat": bool(self._flat.value)}
        changed = {key: value for key, value in values.items() if value != getattr(usual, key)}
        self.context.selection.loss = loss_text(name, changed | self._of_samples)

    def _on_samples(self, *_: Any) -> None:
        """Write other rewards and groups into the address; they hold for all losses."""
        if self._updating or self._study is None:
            return
        given = {key: (field.value or "").strip() for key, field in self._samples.items()}
        kept = {key: value for key, value in self.constants.items() if key not in OF_SAMPLES}
        self.context.selection.loss = loss_text(self.loss, kept | {k: v for k, v in given.items() if v})

    def _start(self) -> None:
        study, text, by = self._study, self.context.selection.loss, self.by

        def results() -> Iterator[LossOutcome | str]:
            try:
                found = None if study is None else changed_loss(study, text, by)
            except SettingError as error:
                yield str(error)
                return
            if found is not None:
                yield found

        self._work.start(results())

    def _on_changed(self, result: LossOutcome | str) -> None:
        self._changed, self._problem = (None, result) if isinstance(result, str) else (result, "")
        self._show_results()

    def _on_by(self, *_: Any) -> None:
        if not self._updating:
            self._compare()

    def _compare(self) -> None:
        """Compare all losses again: by another label, with other rewards, or without some groups."""
        study, by, text = self._study, self.by, loss_text("", self._of_samples)
        if study is None or study.batch is None or study.own is None:
            return

        def results() -> Iterator[Sequence[LossOutcome] | str]:
            try:
                yield other_losses(study, text, by)
            except SettingError as error:
                yield str(error)

        self._sums.start(results())

    def _on_sums(self, losses: Sequence[LossOutcome] | str) -> None:
        if isinstance(losses, str):
            self._problem = losses
            self._show_results()
            return
        self._losses = losses
        self._show_results()
        if self.loss and self.constants:
            self._start()


# -- next phrases --------------------------------------------------------------------------------------
# Button that counts an update's phrases in the next steps, and what it found.


class NextPhrases(Viewer):
    """Counts phrases in the next steps on demand.

    Parameters
    ----------
    context : Context
    note : Html
        Gets what was found in words.
    changed : callable
        Is called when there are other frequencies.
    """

    def __init__(self, context: Context, note: Html, changed: Callable[[], None], **params: Any) -> None:
        super().__init__(**params)
        self._context, self._note, self._changed = context, note, changed
        self._rows, self._phrases = np.empty(0, np.int64), list[WeightRow]()
        self._found: NextSteps | None = None
        self._work: BackgroundTask[NextSteps] = BackgroundTask(self._show, context.threads.queries)
        self._count = button(
            tr("Count the phrases in the next steps"), self._on_count, css_classes=["rl-update-next"]
        )
        self._stop = button(tr("Stop"), self._on_stop, visible=False)
        self._column = pn.Column(
            FieldRow(self._count, self._stop, margin=(0, 12)), note, sizing_mode="stretch_width", margin=0
        )

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def show_phrases(self, rows: np.ndarray, phrases: Sequence[WeightRow]) -> None:
        """Take the phrases of another update, whose samples are ``rows``; none hides the button."""
        self._work.stop()
        self._rows, self._phrases, self._found = rows, list(phrases), None
        self._stop.visible, self._note.html = False, ""

    def numbers(self, phrase: str) -> list[str]:
        """Return the frequency of a phrase at the update and later; empty if it is not counted."""
        found = self._found
        if found is None or phrase not in found.phrases:
            return []
        at = found.phrases.index(phrase)
        pair = (float(found.now[at]), float(found.following[at]))
        return ["–" if value != value else f"{value:.1%}" for value in pair]

    @property
    def titles(self) -> list[str]:
        """Titles of `numbers`; empty if nothing is counted."""
        return [] if self._found is None else [tr("responses"), tr("next steps")]

    def _on_count(self, *_: Any) -> None:
        index = self._context.index
        if index is None or not self._phrases:
            return
        self._stop.visible = True
        phrases = [row.value for row in self._phrases]
        self._work.start(next_steps(index, self._context.view, self._rows, phrases))

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._stop.visible = False
        self._say(tr("Stopped."))

    def _say(self, text: str) -> None:
        self._note.html = f'<p class="note">{safe_text(text)}</p>'

    def _show(self, found: NextSteps) -> None:
        if not found.complete:
            self._say(tr("Reading responses: {read:,} of {total:,} …", read=found.read, total=found.total))
            return
        self._stop.visible, self._found = False, found
        if not found.steps:
            self._say(tr("The run has no later step yet."))
        else:
            self._say(_words(found, np.array([row.push for row in self._phrases])))
        self._changed()


def _words(found: NextSteps, push: np.ndarray) -> str:
    words = [
        tr(
            "Share of the responses with a phrase, at this step and from step {first:,} to {last:,}.",
            first=found.steps[0], last=found.steps[-1],
        )
    ]  # fmt: skip
    agreement = found.agreement(push)
    if agreement is not None:
        words.append(tr(
            "Push and change have the rank correlation {value} over {phrases:,} phrases. It is no proof: all "
            "updates and other prompts took part in the change.",
            value=number(agreement, sign=True), phrases=len(found.phrases),
        ))  # fmt: skip
    if found.unreadable:
        words.append(tr("{count:,} samples changed and were left out.", count=found.unreadable))
    return " ".join(words)
