"""Constants of the loss that the page *Update* changes, and the label by whose values weight is summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.errors import SettingError
from rlpanel.panels.inputs.input_fields import FieldRow, select_field, slider_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.update.compare_losses import LossOutcome, chosen_losses, compare_losses
from rlpanel.update.loss_algorithms import ALGORITHMS, AVERAGING_FORMULAS, UpdateAlgorithm
from rlpanel.update.update_study import UpdateStudy, changed_loss, loss_text, parsed_loss

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
        self._problem, self._by_key, self._updating = "", "", False
        self._work: BackgroundTask[LossOutcome | str] = BackgroundTask(
            self._on_changed, context.threads.views
        )
        self._sums: BackgroundTask[Sequence[LossOutcome]] = BackgroundTask(
            self._on_sums, context.threads.views
        )
        self._by = select_field("update-by", tr("Sum weight by"), 170)
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
        self._by.param.watch(self._on_by, "value")
        for field in (self._averaging, self._flat):
            field.param.watch(self._on_field, "value")
        for slider in self._sliders.values():
            slider.param.watch(self._on_field, "value_throttled")
        self._constants_row = FieldRow(
            *self._sliders.values(), self._averaging, self._flat, margin=(6, 12, 12, 12), visible=False
        )
        self._column = pn.Column(
            FieldRow(self._by, margin=(6, 12, 0, 12)), self._constants_row, margin=0,
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

    def _parsed(self) -> tuple[str, dict[str, float | str | bool]]:
        try:
            name, constants = parsed_loss(self.context.selection.loss)
        except SettingError:
            return "", {}
        return (name, constants) if name in ALGORITHMS else ("", {})

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
        return f"{note} {self._problem}" if self._problem else note

    # -- changes ---------------------------------------------------------------------------------

    def show_study(self, study: UpdateStudy) -> None:
        """Show the fields of the chosen loss, and compute it with its constants."""
        if study is not self._study:
            self._losses = study.losses
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
        self._constants_row.visible = bool(name)
        self._updating = False
        try:
            parsed_loss(self.context.selection.loss)
        except SettingError as error:
            self._problem = str(error)
        if name and self.constants:
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
        self.context.selection.loss = loss_text(name, changed)

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
        study, by = self._study, self.by
        if self._updating or study is None or study.batch is None or study.own is None:
            return
        batch, own = study.batch, study.own

        def results() -> Iterator[Sequence[LossOutcome]]:
            yield compare_losses(batch, own.algorithm, chosen_losses(own), label=by)

        self._sums.start(results())

    def _on_sums(self, losses: Sequence[LossOutcome]) -> None:
        self._losses = losses
        self._show_results()
        if self.constants:
            self._start()
