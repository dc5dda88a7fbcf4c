"""Settings in the side panel: what curves, samples and texts show, and the constants of the training.

The constants (β, γ, λ, ε, …) have the source of each value. The menu of columns that can be drawn as curves
has our names and those used by trainers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import param

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.constants import DECLARED, DeclaredConstant, KnownConstant
from rlpanel.metrics.engine.metric import STATISTICS, split_statistic
from rlpanel.number_text import number
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.inputs.input_fields import Form
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import current_language, marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Constant → step metric computed from it. A default value is listed only if the run has that metric.
_USED_BY = {
    "gamma": "return_pooled",
    "lam": "return_pooled",
    "epsilon": "clipfrac",
    "pass_reward": "pass_at_1",
}


def constant_rows(view: RunView) -> list[dict[str, Any]]:
    """Return a fact of a `rlpanel.panels.inputs.input_fields.Form` for each constant that is used."""
    return [
        {"name": f"constant:{declared.name}", "label": declared.label, "kind": "fact"}
        for declared, _ in _used(view)
    ]


def constant_facts(view: RunView) -> dict[str, list[str]]:
    """Return the value and the help of each row; those of an inferred constant change with the steps."""
    facts = {}
    for declared, constant in _used(view):
        value = number(constant.value) if isinstance(constant.value, float) else str(constant.value)
        facts[f"constant:{declared.name}"] = [
            f"{value} ({constant.origin})",
            f"{declared.help} {constant}",
        ]
    return facts


def _used(view: RunView) -> Iterator[tuple[DeclaredConstant, KnownConstant]]:
    for declared in DECLARED:
        constant = view.constants.by_name.get(declared.name)
        if constant is None or (
            constant.origin == "usual" and _USED_BY.get(constant.name) not in view.step_metrics
        ):
            continue
        yield declared, constant


def options(view: RunView) -> dict[str, str]:
    """Return the menu of curves: label → column or step metric. A search also matches the trainers' names."""
    columns = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    pooled = [name for name in column_info.step_names() if name in view.step_metrics]
    statistics = [
        f"{name}:{statistic}" for name in columns if _has_statistics(name) for statistic in STATISTICS
    ]
    return unique_labels([(_label(name), name) for name in [*columns, *statistics, *pooled]])


def _has_statistics(column: str) -> bool:
    """Return True if the menu offers a column's statistics; offering those of every column would flood it."""
    return column in ("reward", "response_tokens") or column.startswith("rewards/")


def unique_labels(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the entries of a menu by label; a duplicate label gets its column's name appended."""
    by_label: dict[str, str] = {}
    for label, name in entries:
        while label in by_label:
            label = f"{label} [{name}]"
        by_label[label] = name
    return by_label


def _label(name: str) -> str:
    column = described(name)
    return " · ".join([column.axis, *(alias for alias in column.aliases if not alias.startswith(name))])


#: Headings of the menu of curves, in its order: theme colour of a metric's meaning → heading.
_HEADINGS = {
    "policy": marked("Rewards"),
    "reference": marked("Reference"),
    "kl": marked("KL and log-ratio"),
    "length": marked("Lengths"),
    "entropy": marked("Entropy and surprisal"),
    "other": marked("Others"),
    "step": marked("Over all samples of a step"),
    "statistic": marked("Statistics"),
    "log": marked("Trainer log"),
}


def _grouped(options: dict[str, str]) -> list[list[str]]:
    """Return the menu of curves: name, label, heading and meaning, sorted by heading and label."""
    order = list(_HEADINGS)

    def entry(label: str, name: str) -> tuple[int, str, list[str]]:
        column = trainer_scalars.describe(name)
        if trainer_scalars.scalar_of(name) is not None:
            kind = "log"
        elif split_statistic(name)[1]:
            kind = "statistic"
        else:
            kind = "step" if column.level == "step" else column.color
        kind = kind if kind in _HEADINGS else "other"
        meaning = column.help.split(". ")[0]
        return order.index(kind), label.lower(), [name, label, tr(_HEADINGS[kind]), meaning]

    entries = sorted(entry(label, name) for label, name in options.items())
    return [each for *_, each in entries]


#: Group → names of display settings; each field is made from the declaration in `rlpanel.settings`.
_DISPLAY = {
    marked("Curves"): ("run_events", "variance_scale", "zero_shift", "kl_estimator", "per_sequence"),
    marked("Samples"): (
        "count_rewards",
        "max_samples",
        "older_attempts",
        "fold_episodes",
        "answer_rule",
        "stuck_steps",
    ),
    marked("Text"): ("fold_templates", "pad_token", "system_end"),
}
#: Maximum number of curves and of overlay splits that can be chosen.
_MANY = 1000


class SettingsForm(Form):
    """The form below the list of runs; all groups are folded at first."""

    def __init__(self, context: Context) -> None:
        super().__init__(self._on_change, css_classes=["rl-settings"])
        self.context = context
        selection, display = context.selection, context.display
        context.param.watch(self._on_view, "view")
        selection.param.watch(self._draw, ["run", "split", "overlay_splits", "curves", "align", "smooth"])
        display.param.watch(self._draw, [name for name in display.param if name != "name"])
        self._draw()

    def _on_view(self, event: Any) -> None:
        """Draw the form again if the run has new choices; most steps only change the constants' values."""
        new, old = event.new, event.old
        facts = constant_facts(new)
        if new.snapshot.name == old.snapshot.name and self._offers(new, facts) == self._offered:
            self.facts = facts
        else:
            self._draw()

    def _draw(self, *_: Any) -> None:
        facts = constant_facts(self.context.view)
        self._offered = self._offers(self.context.view, facts)
        groups = list(self._groups())
        if groups != self.groups:
            self.groups = groups
        self.facts = facts

    def _offers(self, view: RunView, facts: dict[str, list[str]]) -> tuple[object, ...]:
        """Return all that the form's fields get from a run, except the values of its constants."""
        snapshot = view.snapshot
        splits = (snapshot.split, *snapshot.splits) if snapshot.has_splits else ()
        chosen = [trainer_scalars.resolve(view, name) for name in self.context.selection.curves]
        return splits, snapshot.has_episodes, _curve_options(view), chosen, tuple(facts)

    def _groups(self) -> Iterator[dict[str, Any]]:
        splits = self._split_fields()
        if splits:
            yield {"title": tr("Splits"), "fields": splits}
        for title, names in _DISPLAY.items():
            shown = [name for name in names if name != "count_rewards" or self.context.snapshot.has_episodes]
            fields = [_field(self.context.display, name) for name in shown]
            if title == "Curves":
                selection = self.context.selection
                fields = [self._metrics(), *fields, _field(selection, "align"), _field(selection, "smooth")]
            yield {"title": tr(title), "fields": fields}
        constants = constant_rows(self.context.view)
        if constants:
            yield {"title": tr("Training"), "fields": constants}

    def _metrics(self) -> dict[str, Any]:
        options, selected = _curve_options(self.context.view), self.context.selection.curves
        resolved = [trainer_scalars.resolve(self.context.view, name) for name in selected]
        return {
            "name": "curves",
            "label": tr("Metrics"),
            "kind": "choices",
            "options": _grouped(options),
            "most": _MANY,
            "value": [name for name in resolved if name in options.values()],
            "help": tr(
                "Metrics that are drawn as curves; without a choice, those that matter most in this run."
            ),
        }

    def _split_fields(self) -> list[dict[str, Any]]:
        snapshot, beside = self.context.snapshot, self.context.selection.overlay_splits
        if not snapshot.has_splits:
            return []
        others = [name for name in snapshot.splits if name != snapshot.split]
        return [
            {
                "name": "split",
                "label": tr("Split"),
                "kind": "select",
                "options": [[name, name] for name in snapshot.splits],
                "value": snapshot.split,
                "help": tr("Split whose samples are used in all curves, lists and findings."),
            },
            {
                "name": "overlay_splits",
                "label": tr("Overlay splits"),
                "kind": "choices",
                "options": [[name, name] for name in others],
                "most": _MANY,
                "value": [name for name in beside if name in others],
                "help": tr("Splits whose curves are drawn over those of the selected split."),
            },
        ]

    def _on_change(self, name: str, value: Any) -> None:
        """Apply a change of the browser; a value that is not valid changes nothing."""
        context, selection = self.context, self.context.selection
        fields = {field["name"]: field for group in self.groups for field in group["fields"]}
        field = fields.get(name)
        if field is None or field["kind"] == "fact":
            return
        if field["kind"] in ("choices", "select"):
            allowed = {option for option, *_ in field["options"]}
            chosen = value if isinstance(value, list) else [value]
            if not all(isinstance(each, str) and each in allowed for each in chosen):
                return
        if name == "split":
            context.choose_split(value)
            return
        owner = context.display if name in context.display.param else selection
        with suppress(ValueError, TypeError):
            setattr(owner, name, value)


def _curve_options(view: RunView) -> dict[str, str]:
    """Return the curves of a run by label, computed once for all pages."""

    def make() -> dict[str, str]:
        return unique_labels([*options(view).items(), *trainer_scalars.options(view.snapshot).items()])

    return cached_on(view, "curve options", current_language(), make)


def _field(owner: param.Parameterized, name: str) -> dict[str, Any]:
    """Return the field of a parameter, by its type."""
    parameter = owner.param[name]
    label, text = parameter.label or "", parameter.doc or ""
    field = {"name": name, "label": tr(label), "value": getattr(owner, name), "help": tr(text)}
    if isinstance(parameter, param.Boolean):
        return field | {"kind": "switch"}
    if isinstance(parameter, param.Selector):
        return field | {
            "kind": "select",
            "options": [[value, tr(str(label))] for label, value in parameter.names.items()],
        }
    if isinstance(parameter, param.Number):
        low, high = parameter.bounds or (0, None)
        kind = "integer" if isinstance(parameter, param.Integer) else "range"
        return field | {"kind": kind, "low": low, "high": high, "step": parameter.step or 1}
    return field | {"kind": "text"}
