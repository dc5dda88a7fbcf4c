"""Compares findings with the truth about a synthetic run, and sums up the results as figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpanel.findings.check import check
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.index.run_index import RunIndex
from tests.bench.broken_runs.breakage import Truth

#: Goals: share found, share with the place named, logged steps between the true onset and the finding's.
FOUND, PLACED = 0.95, 0.95
ONSET = {"cliff": 2, "spike": 2, "always": 2, "slide": 8}
_SEVERITIES = ("info", "warning", "alarm")


@dataclass(frozen=True)
class Outcome:
    """What the findings say about one broken run.

    Attributes
    ----------
    seed : int
    truth : Truth
    found, named : bool
        Whether a finding or one of its symptoms names the cause, and whether a leading finding does.
    onset_error : int or None
        Logged steps between the true onset and the finding's; None if it was not found or names no steps.
    placed : bool
        Whether the finding names the place.
    severe : bool
        Whether the severity is right: at least the expected one while it goes on, else no alarm.
    sentence : str
        The finding's sentence, or the sentences of all findings if it was not found.
    """

    seed: int
    truth: Truth
    found: bool
    named: bool
    onset_error: int | None
    placed: bool
    severe: bool
    sentence: str


@dataclass(frozen=True)
class Alarm:
    """An alarm or warning in a healthy run."""

    number: int
    flavour: str
    severity: str
    rule: str
    sentence: str


def open_folder(folder: Path) -> RunIndex:
    """Read a run's folder."""
    index = RunIndex(folder, folder.name, Reading(jobs=0))
    index.rescan()
    while index.read():
        pass
    return index


def check_folder(folder: Path, *, settled: bool = True) -> list[Finding]:
    """Return the findings of a run; unless it is settled, its last step may still be being written."""
    index = open_folder(folder)
    now = index.view.snapshot.newest_line + (1.5 if settled else 0.1)
    return check(index.view, FindingSettings(), now, index=index).findings


def score(seed: int, truth: Truth, steps: Sequence[int], found: list[Finding]) -> Outcome:
    """Compare the findings of a broken run with the truth."""
    candidates = [
        (not _names(finding, truth.rules), _SEVERITIES.index(finding.severity) * -1, finding, named)
        for finding in found
        for named in [finding, *finding.symptoms]
        if _names(named, truth.rules) and _counts(finding, truth)
    ]
    if not candidates:
        sentences = " / ".join(f"{finding.rule}: {finding.sentence}" for finding in found)
        return Outcome(seed, truth, False, False, None, False, False, sentences)
    symptom_only, _, leading, named = min(candidates, key=lambda candidate: candidate[:2])
    return Outcome(
        seed,
        truth,
        True,
        not symptom_only,
        _onset_error(truth, steps, leading),
        _placed(truth, leading) or _placed(truth, named),
        _severe(truth, leading),
        f"{leading.rule}: {leading.sentence}",
    )


def _names(finding: Finding, rules: tuple[str, ...]) -> bool:
    """Return whether a finding is of one of the rules, and about a column that begins as the rule asks."""
    columns = (finding.column, *re.split(r"[\s:]+", finding.subject))
    for rule in rules:
        name, _, begin = rule.partition("~")
        if finding.rule == name and any(column.startswith(begin) for column in columns):
            return True
    return False


def _counts(finding: Finding, truth: Truth) -> bool:
    """Return whether a finding is about the affected steps, and seen: an info only counts for what ended."""
    if truth.ongoing and finding.severity == "info":
        return False
    if finding.onset is None or finding.last is None:
        return True
    return finding.onset <= truth.last and (finding.last >= truth.onset)


def _onset_error(truth: Truth, steps: Sequence[int], finding: Finding) -> int | None:
    if finding.onset is None:
        return 0 if truth.shape == "always" else None
    there, here = np.searchsorted(steps, [truth.onset, finding.onset])
    return int(here - there)


def _placed(truth: Truth, finding: Finding) -> bool:
    if truth.ranks:
        return finding.rank in truth.ranks and not finding.category
    return finding.rank is None and finding.category == truth.category


def _severe(truth: Truth, finding: Finding) -> bool:
    if not truth.ongoing:
        return finding.severity != "alarm"
    return _SEVERITIES.index(finding.severity) >= _SEVERITIES.index(truth.severity)


def false_alarms(number: int, flavour: str, found: list[Finding]) -> list[Alarm]:
    """Return the alarms and warnings of a healthy run."""
    return [
        Alarm(number, flavour, finding.severity, finding.rule, finding.sentence)
        for finding in found
        if finding.severity != "info"
    ]


def figures_of_kinds(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return how many kinds of broken runs meet the goals, and shares of all runs."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.truth.kind, []).append(outcome)
    missed = {kind: _missed(runs) for kind, runs in kinds.items()}
    named = np.mean([outcome.named for outcome in outcomes])
    return {
        "broken runs": len(outcomes),
        "found, %": 100 * float(np.mean([outcome.found for outcome in outcomes])),
        "the leading finding names the cause, %": 100 * float(named),
        "kinds that meet all goals": sum(not goals for goals in missed.values()),
        **{f"{kind} misses {', '.join(goals)}": len(kinds[kind]) for kind, goals in missed.items() if goals},
    }


def _missed(runs: Sequence[Outcome]) -> list[str]:
    """Return the goals that one kind misses."""
    truth, seen = runs[0].truth, [outcome for outcome in runs if outcome.found]
    if not seen:
        return ["found"]
    errors = [abs(outcome.onset_error) for outcome in seen if outcome.onset_error is not None]
    shares = {
        "found": (len(seen) / len(runs), FOUND),
        "onset": (sum(error <= ONSET[truth.shape] for error in errors) / len(seen), FOUND),
        "place": (sum(outcome.placed for outcome in seen) / len(seen), PLACED),
        "severity": (sum(outcome.severe for outcome in seen) / len(seen), FOUND),
    }
    return [name for name, (share, goal) in shares.items() if share < goal]


def figures_of_healthy(runs: Sequence[Sequence[Alarm]]) -> dict[str, float]:
    """Return how many healthy runs have alarms or warnings, and of which rules."""
    rules = Counter(f"{alarm.severity}s of {alarm.rule}" for alarms in runs for alarm in alarms)
    shares = {
        f"healthy runs with {name}, %": 100
        * float(np.mean([any(a.severity == name for a in each) for each in runs]))
        for name in ("alarm", "warning")
    }
    return {"healthy runs": len(runs), **shares, **rules}
