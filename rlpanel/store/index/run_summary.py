"""Summary of a run for lists: samples, last reward and its trend, worst finding, and configuration.

Its text is saved for the next process. It may be older than the run.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_folder import Setting, settings_of

#: File in the cache folder of a run, and version of its content: that of another version is ignored.
FILE, VERSION = "summary", 5
#: Maximum number of points of a trend, and of characters of a finding.
TREND_POINTS, MAX_CHARACTERS = 24, 1000


@dataclass(frozen=True)
class RunSummary:
    """Numbers, state and worst finding of a run, for the list and the table of runs.

    Attributes
    ----------
    samples : int
        Number of samples in all splits; 0 if the run was never read.
    step : int or None
        The newest complete step. If the run was never read, the newest step in the last lines of a file.
    reward : float or None
        Mean reward of that step; None if it was not logged.
    trend : tuple of float
        Mean rewards from the first step to that step, at most `TREND_POINTS`: each is the mean of as many
        consecutive steps. Empty unless there are at least two.
    complete : bool
        False if the reader still had lines to read.
    bytes : int
        Bytes of the files, as they are on the disk.
    newest_line : float
        Time of the newest line, in seconds since the epoch.
    split : str
        The split that step, reward and trend are about.
    doubt : str
        Kind of the remark on this step, whose reward may be that of other samples; empty if there is none.
    severity : str or None
        ``alarm`` or ``warning``: that of the worst finding that goes on or ended just now. Empty without such
        a finding, None if the run was never checked.
    finding : str
        The sentence of that finding.
    checked : int
        The newest step when the run was checked.
    excluded : int
        Number of further samples that do not count: of older attempts, or logged twice.
    first : int or None
        The first step.
    error : float or None
        Standard error of the reward; None with fewer than two rewards.
    kl, length : float or None
        Means at the step: of KL k3 per token, and of the response's tokens, or characters without tokens.
    onset : int or None
        First step of the worst finding.
    alarms, warnings : int
        Number of findings of these severities.
    checked_bytes : int
        Bytes of the files when the run was checked; -1 if it never was.
    unchecked : str
        Why the run could not be checked; empty if it could, or was not tried. It is not saved.
    unreadable : bool
        Whether that is because nothing of it can be read.
    config : dict
        The run's configuration: the numbers and short texts of its ``run.json``, then those of other
        configuration files and the launch command in its folder.
    best, best_error : float or None
        Highest mean reward of a step, and its standard error. It is the highest of many noisy ones.
    best_step : int or None
        The step of that reward.
    tokens : float or None
        Number of tokens of all responses of the split; None if they are not logged.
    seconds : float or None
        Seconds from the first line to the last one, with pauses; None if lines have no time.
    """

    samples: int = 0
    step: int | None = None
    reward: float | None = None
    trend: tuple[float, ...] = ()
    complete: bool = False
    bytes: int = 0
    newest_line: float = 0.0
    split: str = TRAIN
    doubt: str = ""
    severity: str | None = None
    finding: str = ""
    checked: int = -1
    excluded: int = 0
    first: int | None = None
    error: float | None = None
    kl: float | None = None
    length: float | None = None
    onset: int | None = None
    alarms: int = 0
    warnings: int = 0
    checked_bytes: int = -1
    unchecked: str = ""
    unreadable: bool = False
    config: dict[str, Setting] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None
    best_error: float | None = None
    tokens: float | None = None
    seconds: float | None = None


#: What a check of the rules notes; a new snapshot keeps it.
OF_CHECKS = (
    *("severity", "finding", "checked", "onset", "alarms", "warnings", "checked_bytes", "unchecked"),
    "unreadable",
)
UNKNOWN = RunSummary()


def summary_text(summary: RunSummary) -> str:
    """Return a summary as the text that `parse_summary` reads."""
    return json.dumps({"version": VERSION, **asdict(summary)})


def parse_summary(text: str) -> RunSummary:
    """Return the summary that a saved text holds; nothing is known if it holds anything else."""
    try:
        found = json.loads(text)
        if found.pop("version") != VERSION or len(found) != len(fields(RunSummary)):
            return UNKNOWN
        summary = RunSummary(**{**found, "trend": tuple(found["trend"])})
        return summary if _is_valid(summary) else UNKNOWN
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return UNKNOWN


def _is_valid(summary: RunSummary) -> bool:
    """Return True if every value has the type of its field and is one that rlpanel writes."""
    numbers = (
        *(summary.reward, summary.error, summary.kl, summary.length, *summary.trend, summary.newest_line),
        *(summary.best, summary.best_error, summary.tokens, summary.seconds),
    )
    given = [value for value in numbers if value is not None]
    counts = (summary.alarms, summary.warnings, summary.checked_bytes)
    steps = [
        step for step in (summary.step, summary.first, summary.onset, summary.best_step) if step is not None
    ]
    kinds: list[tuple[type, list[Any]]] = [
        (int, [summary.samples, summary.excluded, *steps, summary.bytes, summary.checked, *counts]),
        (float, given),
        (str, [summary.split, summary.doubt, summary.severity or "", summary.finding, summary.unchecked]),
        (bool, [summary.complete, summary.unreadable]),
        (dict, [summary.config]),
    ]
    return (
        all(type(value) is kind for kind, values in kinds for value in values)
        and all(map(math.isfinite, given))
        and summary.samples >= 0
        and summary.excluded >= 0
        and (summary.samples == 0 or summary.step is not None)
        and len(summary.trend) <= TREND_POINTS
        and summary.config == settings_of(summary.config)
        and len(summary.finding) <= MAX_CHARACTERS
        and summary.severity in (None, "", "warning", "alarm")
    )
