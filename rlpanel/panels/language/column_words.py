"""Columns of samples and steps in the language of the page: label, tooltip, and name of an axis.

The registry of metrics knows no languages. Its texts are keys of the catalogue; texts of the user's own
metrics have no translation and stay as they are. Units stay keys, too, since code compares them: `tr` them to
show them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from rlpanel import schema
from rlpanel.metrics.engine import column_info, trainer_names
from rlpanel.metrics.engine.column_info import ColumnInfo
from rlpanel.metrics.engine.metric import split_statistic
from rlpanel.panels.language.labels import ENGLISH, current_language, marked, tr

#: Help of a column that only the trainer knows, whose label is the name in the log.
_UNKNOWN = marked("Logged by the trainer under this name.")
_STATISTICS = {
    "std": (marked("{label} std"), marked("Standard deviation over the samples of a step.")),
    "min": (marked("{label} min"), marked("Minimum over the samples of a step.")),
    "max": (marked("{label} max"), marked("Maximum over the samples of a step.")),
}
_ARRAYS = {
    "mean per token": marked(
        "Mean value of a list that the trainer logs under this name, one value per token."
    ),
    "smallest token": marked(
        "Smallest value of a list that the trainer logs under this name, one value per token."
    ),
    "largest token": marked(
        "Largest value of a list that the trainer logs under this name, one value per token."
    ),
}
#: Texts that the registry puts together, and its words for reductions and for what is good.
_WORDS = (
    *(marked("mean per token"), marked("sum over tokens"), marked("over samples"), marked("smallest token")),
    *(marked("largest token"), marked("KL k1"), marked("up"), marked("down"), marked("near 0")),
    marked("near 1"),
)


@dataclass(frozen=True)
class ColumnWords(ColumnInfo):
    """A column whose texts are those of the page's language."""

    @property
    def axis(self) -> str:
        """Label, reduction and unit in one line."""
        text = self.label
        if self.detail:
            text = tr("{label}, {detail}", label=text, detail=self.detail)
        if self.unit and tr(self.unit) != self.label:
            text = tr("{label} ({unit})", label=text, unit=tr(self.unit))
        return text

    @property
    def tip(self) -> str:
        """Tooltip: meaning, compared pair, advice, source and trainer names, in one paragraph."""
        pair, good = self.definition.pair, self.good
        names = [
            tr("{scalar} in {trainer}", scalar=scalar, trainer=row.trainer)
            for row, scalar in trainer_names.names_of(self.name)
        ]
        parts = [f"{self.axis}: {self.help}", tr("Compares: {pair}.", pair=tr(pair)) if pair else ""]
        parts += [self.advice, tr("Good: {good}.", good=tr(good)) if good else ""]
        parts += [tr("Formula: {source}.", source=self.source) if self.source else ""]
        parts += [tr("Logged as {names}.", names=", ".join(names)) if names else ""]
        return " ".join(part for part in parts if part)


def described(name: str) -> ColumnInfo:
    """Return the description of a column or curve in the language of the page."""
    column = column_info.describe(name)
    return column if current_language() == ENGLISH else _translated(column)


def _translated(column: ColumnInfo) -> ColumnWords:
    base, statistic = split_statistic(column.name)
    if statistic in _STATISTICS:
        return _of_statistic(column, base, statistic)
    label, text = tr(column.label), tr(column.help)
    kind, _, tool = column.name.partition(".")
    if column.help == _UNKNOWN:
        label = column.label
    elif tool and column.name.startswith((schema.TOOL_CALLS, schema.TOOL_ERRORS)):
        of_all = _translated(column_info.describe(kind))
        label = f"{of_all.label}, {tool}"
        text = tr(
            "{help} Only calls of {tool} and samples that called it count.", help=of_all.help, tool=tool
        )
    elif column.name.startswith(schema.TOKEN_COLUMNS):
        label, text = column.label, tr(_ARRAYS.get(column.detail, column.help))
    return _words(column, label=label, help=text, detail=tr(column.detail), advice=tr(column.advice))


def _of_statistic(column: ColumnInfo, base: str, statistic: str) -> ColumnWords:
    """Return the words of a statistic over the samples of a step."""
    label, text = _STATISTICS[statistic]
    of = _translated(column_info.describe(base))
    detail = tr("of {detail}", detail=of.detail) if of.detail else tr("over samples")
    return _words(column, label=tr(label, label=of.label), help=f"{tr(text)} {of.help}", detail=detail)


def _words(column: ColumnInfo, **texts: str) -> ColumnWords:
    shown = replace(column, **texts)  # type: ignore[arg-type]
    return ColumnWords(**{field.name: getattr(shown, field.name) for field in fields(shown)})
