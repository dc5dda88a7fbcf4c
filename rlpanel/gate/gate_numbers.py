"""The numbers that a gate compares: their columns, their scale, and the direction in which they are worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.metrics.engine.column_info import describe
from rlpanel.store.snapshot.alignment import ComparedReward, compared_reward
from rlpanel.store.snapshot.snapshot import Snapshot

#: ``either``: the number has no good direction, so that a difference to both sides counts.
Worse = Literal["lower", "higher", "either"]
#: ``log``: a positive number whose differences are factors.
Scale = Literal["level", "log"]
#: Sum and weight of each row; the mean of a step is the sum of sums over the sum of weights.
Parts = tuple[np.ndarray, np.ndarray]

#: Smallest value whose logarithm is taken: the noise of floats lies below it.
MIN_LOGARITHM = 1e-6
#: The numbers of a gate without ``--on``.
USUAL = ("reward", "valid_reward", "length", "kl", "mismatch", "tool_errors")
#: Largest standard deviation between runs with the same settings that is assumed: for shares and rewards
#: this part of that of single samples, and for the logarithm of the length this value.
SEED_SHARE, SEED_LENGTH = 0.25, 0.25
#: Numbers whose mean cannot differ much between seeds if single samples do not.
_BOUNDED = ("reward", "valid_reward", "tool_errors")
_GOOD: dict[str, Worse] = {"up": "lower", "down": "higher"}


@dataclass(frozen=True)
class GateNumber:
    """A number that is compared.

    Attributes
    ----------
    name : str
        As it was asked for.
    column : str
        The logged or computed column; empty if no run has one.
    worse : {"lower", "higher", "either"}
    scale : {"level", "log"}
    parts : callable
        Returns sum and weight of rows, each of shape (N,); NaN where the number is not defined.
    missing : tuple of str
        Names of the runs that do not log it.
    logged : bool
        Whether any run logs it.
    remark : str
        What to know about the number, such as the reward functions that are summed.
    doubt : str
        Why the runs cannot be compared by it; empty if they can.
    aim : float, optional
        The desired value of a number that is good near it; the distance is compared.
    """

    name: str
    column: str
    worse: Worse
    scale: Scale
    parts: Callable[[RowBatch], Parts]
    missing: tuple[str, ...] = ()
    logged: bool = True
    remark: str = ""
    doubt: str = ""
    aim: float | None = None

    def scaled(self, means: np.ndarray) -> np.ndarray:
        """Return means in the scale of the test."""
        if self.aim is not None:
            means = np.abs(means - self.aim)
        return np.log(np.maximum(means, MIN_LOGARITHM)) if self.scale == "log" else means

    def most_between(self, spread: float) -> float:
        """Return the largest standard deviation between seeds that is assumed, in the scale of the test.

        Parameters
        ----------
        spread : float
            Standard deviation of single samples.
        """
        if self.name == "length":
            return SEED_LENGTH
        return SEED_SHARE * spread if self.name in _BOUNDED and spread > 0 else float("inf")

    def natural(self, scaled: float) -> float:
        """Return a mean in its own unit."""
        return float(np.exp(scaled)) if self.scale == "log" else scaled

    def natural_size(self, scaled: float) -> float:
        """Return a difference: in the number's unit, or as a factor."""
        return float(np.exp(min(scaled, 50.0))) if self.scale == "log" else scaled


def numbers_of(names: Sequence[str] | None, runs: Sequence[Snapshot]) -> list[GateNumber]:
    """Return the numbers that are asked for; by default those of `USUAL` that at least one run logs.

    Raises
    ------
    SettingError
        If a name is neither one of `USUAL` nor a number that rlpanel or a run knows.
    """
    found = [_number(name, runs) for name in dict.fromkeys(names or USUAL)]
    return found if names else [number for number in found if number.logged]


def _number(name: str, runs: Sequence[Snapshot]) -> GateNumber:
    if name == "reward":
        return _reward(runs)
    if name == "valid_reward":
        return _column(name, name, runs, "lower", "level")
    if name == "length":
        lengths = ("response_tokens", "response_length", "response_chars")
        return _column(name, _first(lengths, runs), runs, "either", "log")
    if name == "kl":
        columns = ("kl_k3_mean", "kl_k2_mean", "kl_rllb_mean", "kl")
        return _column(name, _first(columns, runs), runs, "higher", "log")
    if name == "mismatch":
        return _made(name, "engine_log_ratio_mean", runs, "higher", "log", _mismatch)
    if name == "tool_errors":
        return _made(name, "tool_errors", runs, "higher", "level", _tool_errors)
    return _other(name, runs)


def _other(name: str, runs: Sequence[Snapshot]) -> GateNumber:
    """Return a number by the name of its column; its description has the good direction."""
    known = sorted({column for run in runs for column in run.numbers})
    if name not in known and not any(run.has_number(name) for run in runs):
        from difflib import get_close_matches

        near = get_close_matches(name, [*USUAL, *known], n=3)
        hint = f"; similar ones are {', '.join(near)}" if near else ""
        raise SettingError(f"no run logs the number {name[:80]!r}{hint}")
    good = describe(name).good
    if good.startswith("near "):
        return _column(name, name, runs, "higher", "level", aim=float(good.removeprefix("near ")))
    return _column(name, name, runs, _GOOD.get(good, "either"), "level")


def _first(columns: Sequence[str], runs: Sequence[Snapshot]) -> str:
    """Return the first column that all runs log, else the one that most of them log."""
    return max(columns, key=lambda column: sum(run.has_number(column) for run in runs))


def _column(
    name: str,
    column: str,
    runs: Sequence[Snapshot],
    worse: Worse,
    scale: Scale,
    aim: float | None = None,
) -> GateNumber:
    def parts(rows: RowBatch) -> Parts:
        return _level(rows.number(column))

    return _made(name, column, runs, worse, scale, parts, aim)


def _made(
    name: str,
    column: str,
    runs: Sequence[Snapshot],
    worse: Worse,
    scale: Scale,
    parts: Callable[[RowBatch], Parts],
    aim: float | None = None,
) -> GateNumber:
    missing = tuple(run.name for run in runs if not run.has_number(column))
    return GateNumber(name, column, worse, scale, parts, missing, logged=len(missing) < len(runs), aim=aim)


def _level(values: np.ndarray) -> Parts:
    finite = np.isfinite(values)
    return np.where(finite, values, np.nan), np.where(finite, 1.0, np.nan)


def _mismatch(rows: RowBatch) -> Parts:
    """Return the mean of exp|log ρ| − 1 over the tokens of each sample, at most 1 (see `engine_mismatch`)."""
    with np.errstate(all="ignore"):
        gap = rows.number("_engine_gap_sum") / rows.number("engine_log_ratio_count") - 1
    return _level(np.minimum(gap, 1.0))


def _tool_errors(rows: RowBatch) -> Parts:
    """Return failed tool calls and all tool calls of each sample (see `failed_call_share`)."""
    failed, calls = rows.number("tool_errors"), rows.number("tool_calls")
    known = np.isfinite(failed) & np.isfinite(calls) & (calls > 0)
    return np.where(known, failed, np.nan), np.where(known, calls, np.nan)


def _reward(runs: Sequence[Snapshot]) -> GateNumber:
    """Return the reward, or the sum of the reward functions that all runs log."""
    new, *others = runs
    compared = [compared_reward(new, other) for other in others]
    functions = [set(each.functions) for each in compared if each.functions]
    chosen = compared[0] if compared else ComparedReward()
    remark = doubt = ""
    if any(each.doubtful for each in compared):
        doubt = "The runs log other reward functions, and share none"
    elif functions:
        first = next(each for each in compared if each.functions)
        shared = tuple(name for name in first.functions if all(name in each for each in functions))
        shared = tuple(name for name in shared if all(run.has_number(f"rewards/{name}") for run in runs))
        same = len({(each.weights, each.weighting) for each in compared if each.functions}) == 1
        weights = first.weights if same and shared == first.functions else (1.0,) * len(shared)
        chosen = ComparedReward(shared, weights, first.weighting)
        remark = f"The runs differ in their reward functions; compared is the sum of {', '.join(shared)}"
        if not shared:
            doubt = "The runs log other reward functions, and share none"

    def parts(rows: RowBatch) -> Parts:
        return _level(chosen.values(rows.view.snapshot)[rows.rows])

    column = "reward" if not chosen.functions else f"rewards/{chosen.functions[0]}"
    made = _made("reward", column, runs, "lower", "level", parts)
    return GateNumber(
        *("reward", "reward", "lower", "level", parts, made.missing, made.logged), remark=remark, doubt=doubt
    )
