"""Compares findings with the truth about a synthetic run, and sums up the results as tables."""

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
#: Goals: alarms and warnings in 200 healthy runs.
WARNINGS = 4
#: Most sentences of healthy runs that are listed.
_LISTED = 60
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
    view = open_folder(folder).view
    return check(view, FindingSettings(), view.snapshot.newest_line + (1.5 if settled else 0.1)).findings


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


def kinds_table(outcomes: list[Outcome]) -> str:
    """Return the results of broken runs as markdown: a line for each kind, and the sums."""
    lines = [
        "| broken run | shape | place | found | named | onset error, median / worst, steps "
        "| within goal | place named | severity right | missed goals |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.truth.kind, []).append(outcome)
    met = 0
    for kind, runs in kinds.items():
        cells, missed = _kind_cells(runs)
        met += not missed
        lines.append(f"| {kind} | {' | '.join(cells)} | {', '.join(missed)} |")
    found = np.mean([outcome.found for outcome in outcomes])
    named = np.mean([outcome.named for outcome in outcomes])
    cliff, slide = ONSET["cliff"], ONSET["slide"]
    summary = (
        f"{met} of {len(kinds)} kinds meet all goals (found and placed in {FOUND:.0%}, onset "
        f"within {cliff} logged steps for a cliff and {slide} for a slide, in {FOUND:.0%}). "
        f"Of all {len(outcomes)} runs, {found:.1%} were found, and in {named:.1%} the leading finding names "
        "the cause."
    )
    return "\n".join([*lines, "", summary])


def _kind_cells(runs: list[Outcome]) -> tuple[list[str], list[str]]:
    """Return the cells of one kind, and the goals that it misses."""
    truth, seen = runs[0].truth, [outcome for outcome in runs if outcome.found]
    limit = ONSET[truth.shape]
    errors = [abs(outcome.onset_error) for outcome in seen if outcome.onset_error is not None]
    found = len(seen) / len(runs)
    near = sum(error <= limit for error in errors) / max(1, len(seen))
    placed = sum(outcome.placed for outcome in seen) / max(1, len(seen))
    severe = sum(outcome.severe for outcome in seen) / max(1, len(seen))
    named = sum(outcome.named for outcome in runs) / len(runs)
    place = "rank" if truth.ranks else "category" if truth.category else "run"
    goals = {"found": found >= FOUND, "onset": near >= FOUND, "place": placed >= PLACED}
    goals["severity"] = severe >= FOUND
    missed = [name for name, good in goals.items() if not good] if seen else ["found"]
    worst = f"{np.median(errors):.0f} / {max(errors)}" if errors else "–"
    shares = [f"{share:.0%}" if seen else "–" for share in (near, placed, severe)]
    return [truth.shape, place, f"{found:.0%}", f"{named:.0%}", worst, *shares], missed


def healthy_table(runs: list[list[Alarm]]) -> str:
    """Return the results of healthy runs as markdown: counts, and all sentences."""
    lines = ["| healthy runs | figure | goal |", "|---|---|---|", f"| runs | {len(runs)} | |"]
    for severity, goal in (("alarm", "0"), ("warning", f"at most {WARNINGS} of 200")):
        count = sum(any(alarm.severity == severity for alarm in alarms) for alarms in runs)
        lines.append(f"| runs with an {severity} | {count} | {goal} |".replace("an warning", "a warning"))
    every = [alarm for alarms in runs for alarm in alarms]
    rules = Counter((alarm.severity, alarm.rule) for alarm in every)
    lines += [f"| {severity}s of {rule} | {count} | |" for (severity, rule), count in rules.most_common()]
    listed = [
        f"- {a.severity}, {a.rule}, run {a.number} ({a.flavour}): {a.sentence}" for a in every[:_LISTED]
    ]
    if len(every) > _LISTED:
        listed.append(f"- and {len(every) - _LISTED} more")
    return "\n".join([*lines, "", *listed])
