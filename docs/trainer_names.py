"""The section of the metrics page on the names under which trainers log the same numbers."""

from __future__ import annotations

from rlpanel.metrics.engine.trainer_names import TABLE, TrainerScalar, names_of
from rlpanel.panels.curves.trainer_scalars import ABSOLUTE, RELATIVE

_TEXT = f"""The curve menu also finds a number by its trainer's name. If the trainer's log is in the run's
folder, the board compares the two and draws the logged number over ours. `*` stands for the name of a reward
function.

Each row is tested: the trainer's own code writes its log, and the test compares it with our number. Scalars
that are missing here are other numbers. For example, TRL's `val/ratio_var` is a variance over mini-batches,
and `frac_reward_zero_std` counts groups by another rule.

Two points are equal if they differ by at most {RELATIVE:.3%} of the larger one, or by {ABSOLUTE:.6f}. For
entropies the rounding of the recorded rows is added, 0.00005. A log that is written every few steps is
compared with the mean of those steps. If the points differ and `run.json` does not say that the conditions in
the last column hold, the card says *not comparable*, with the reason. A user's scalar `NAME_mean` is compared
with the column `NAME` in the same way."""


def section() -> list[str]:
    """Return the lines of the section."""
    head = ["| trainer | logged as | since | our number | if |", "|---|---|---|---|---|"]
    return ["## Names in trainers' logs", "", _TEXT, "", *head, *map(_row, TABLE), ""]


def names_text(curve: str) -> str:
    """Return which trainers log a number under which names, and since which version; empty if none does."""
    return ", ".join(f"`{name}` of {row.trainer} since {row.since}" for row, name in names_of(curve))


def _row(row: TrainerScalar) -> str:
    conditions = "; ".join(condition.text for condition in row.conditions) or "–"
    late = "; ours is the last pass, which is logged at its own step" if row.last_pass else ""
    cells = (row.trainer, f"`{row.name}`", row.since, f"`{row.number}`", f"{conditions}{late}")
    return "| " + " | ".join(cells) + " |"
