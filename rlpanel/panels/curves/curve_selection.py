"""Selects the curves to show, and the columns that share a card."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
#: Number of default curves; a critic adds its own, and more are drawn only if they are chosen by name.
_DEFAULT_COUNT = 4
_CRITIC = ("var_explained", "value_error")
_OTHERS = ("surprisal_mean", "token_entropy_mean", "reward_gap", "advantage", "prompt_chars")
#: In fewer steps than this, an equal value may be chance.
_FEW_STEPS = 5
#: A mean below this share of the standard deviation is a rounding error of centred values.
_CENTRED = 1e-3
#: Points whose band shows the standard deviation.
_WITH_DEVIATION = Display(band="std")


@dataclass(frozen=True)
class Curve:
    """One card: its title and its columns; the first column gives the value in the head."""

    key: str
    title: str
    columns: tuple[str, ...]
    #: Whether the value axis is logarithmic.
    log: bool = False


def kl_column(context: Context) -> str:
    """Return the sample column of the chosen KL estimator and reduction."""
    reduction = "sum" if context.display.per_sequence else "mean"
    return f"{context.display.kl_estimator}_{reduction}"


def curves_of(context: Context) -> list[Curve]:
    """Return the cards to show: the chosen columns, else the defaults that tell something about the run."""
    view = context.view
    wanted = [trainer_scalars.resolve(view, name) for name in context.selection.curves]
    chosen = [name for name in wanted if trainer_scalars.has_data(view, name)]
    return [_curve(name, context) for name in chosen or _default_names(context)]


def _default_names(context: Context) -> list[str]:
    """Return the default columns: those that every run needs, then those of a critic, then the others."""
    view, kl = context.view, kl_column(context)
    return cached_on(view, "default curves", kl, lambda: _defaults_of(view, kl))


def _defaults_of(view: RunView, kl: str) -> list[str]:
    first = ["reward", kl, _length_column(view)]
    critic = [name for name in _CRITIC if _varies(view, name)]
    others = [] if critic else list(_OTHERS)
    telling = (
        name
        for name in (*first, *critic, *others)
        if view.has(name) and (name == "reward" or (_varies(view, name) and not _is_centred(view, name)))
    )
    return list(islice(telling, max(_DEFAULT_COUNT, 3 + len(critic))))


def _length_column(view: RunView) -> str:
    return "response_tokens" if view.has("response_tokens") else "response_chars"


def _varies(view: RunView, name: str) -> bool:
    """Return whether a column has values that differ; with few steps, whether it has any."""
    if not view.has(name):
        return False
    values = view.step_values(name)
    values = values[np.isfinite(values)]
    return len(values) > 0 and (len(values) < _FEW_STEPS or float(np.ptp(values)) > 0)


def _is_centred(view: RunView, name: str) -> bool:
    """Return whether a column's mean is near zero at each step, like that of centred advantages."""
    points = trainer_scalars.points(view, name, _WITH_DEVIATION)
    if "hi" not in points or not len(points["y"]):
        return False
    spread = (points["hi"] - points["lo"]) / 2
    with np.errstate(invalid="ignore"):
        return bool((np.abs(points["y"]) < _CENTRED * spread).all())


def show_curve(context: Context, column: str) -> None:
    """Scroll to the card of a column, and add the card if it is hidden.

    Nothing happens if the run lacks the column.
    """
    if not column or not context.view.has(column):
        return
    shown = [curve.columns[0] for curve in curves_of(context)]
    if column not in shown:
        context.selection.curves = [*shown, column]
    context.reveal(column)


def without_last_curve(context: Context) -> list[str]:
    """Return the chosen curves without the last one, which `show_curve` has added; empty for the defaults."""
    rest = context.selection.curves[:-1]
    return [] if rest == _default_names(context) else rest


def _curve(name: str, context: Context) -> Curve:
    view = context.view
    columns = tuple(c for c in _REWARDS if view.has(c)) if name == "reward" else (name,)
    label = trainer_scalars.describe(name).label
    if trainer_scalars.scalar_of(name) is None:
        label = label[:1].upper() + label[1:]
    log = name in context.selection.log_curves
    return Curve(name, label, (*columns, *trainer_scalars.drawn_over(view, columns)), log)
