"""Selects the curves to show, and the columns that share a card."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.session.context import Context

_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
#: Number of default curves; more are drawn only if they are chosen by name.
_DEFAULT_COUNT = 4


@dataclass(frozen=True)
class Curve:
    """One card: its title and its columns; the first column gives the value in the head."""

    key: str
    title: str
    columns: tuple[str, ...]


def kl_column(context: Context) -> str:
    """Return the sample column of the chosen KL estimator and reduction."""
    reduction = "sum" if context.display.per_sequence else "mean"
    return f"{context.display.kl_estimator}_{reduction}"


def curves_of(context: Context) -> list[Curve]:
    """Return the cards to show: the chosen columns, else the first four defaults that the run has."""
    view = context.view
    wanted = [trainer_scalars.resolve(view, name) for name in context.selection.curves]
    chosen = [name for name in wanted if trainer_scalars.has_data(view, name)]
    if chosen:
        return [_curve(name, context) for name in chosen]
    length = "response_tokens" if view.has("response_tokens") else "response_chars"
    defaults = [
        "reward",
        kl_column(context),
        length,
        "surprisal_mean",
        "reward_gap",
        "advantage",
        "prompt_chars",
    ]
    return [_curve(name, context) for name in defaults if view.has(name)][:_DEFAULT_COUNT]


def show_curve(context: Context, column: str) -> None:
    """Reveal the card of a column, and add it if it is hidden; does nothing if the run lacks the column."""
    if not column or not context.view.has(column):
        return
    shown = [curve.columns[0] for curve in curves_of(context)]
    if column not in shown:
        context.selection.curves = [*shown, column]
    context.reveal(column)


def _curve(name: str, context: Context) -> Curve:
    view = context.view
    columns = tuple(c for c in _REWARDS if view.has(c)) if name == "reward" else (name,)
    label = trainer_scalars.describe(name).label
    if trainer_scalars.scalar_of(name) is None:
        label = label[:1].upper() + label[1:]
    return Curve(name, label, (*columns, *trainer_scalars.drawn_over(view, columns)))
