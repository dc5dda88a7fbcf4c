"""State of the findings of a run that is being written: each is raised, continues, and ends once.

The rules look at the steps so far, so what they find at one step they may not find at the next. A raised
finding is therefore held for some steps, and reported as ended only after that: longer if no rule says that
its change has ended. Alerts wait until a finding is confirmed: a few steps later it is still found. One that
is found again after its end is an info until then; after that it says that it is raised again. If it is about
steps of before its end, it takes as long to come back as it took to end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.findings.engine.window_scan import WINDOWS

#: Further complete steps after which a finding that is still found is confirmed.
PATIENCE = 2
#: Complete steps without it after which a finding has ended; doubled for one that is confirmed, and each time
#: that it came back after that.
HOLD, _MAX_RETURNS = 4, 4
#: Steps for which a confirmed finding is held that no rule lists, not even as ended: while the widest window
#: that is compared may have some of its steps.
UNLISTED = WINDOWS[-1]
#: Rules whose subject is the largest of several changes at one step: another one may be the largest after the
#: next step. Their findings are the same if they begin this many steps apart at most.
_BY_STEP, _SAME_STEP = ("something_changed",), 3
#: Most findings that have ended and are remembered.
_REMEMBERED = 50
#: Version of the saved text: that of another version is ignored.
_VERSION = 2


@dataclass(frozen=True)
class RaisedFinding:
    """State of a finding since it was raised.

    Attributes
    ----------
    finding : Finding
        As it was found last, without symptoms.
    first, last : int
        Newest complete step when it was raised, and when it was found last.
    alarm : int or None
        Newest complete step when it became an alarm; None if it is none.
    confirmed, alarm_confirmed : bool
        True if it was still found, or still an alarm, `PATIENCE` steps later.
    ended : int or None
        Newest complete step when it ended; None while it continues.
    returns : int
        How often it was raised again after it had ended, and was confirmed.
    before : RaisedFinding, optional
        Its last episode that had ended; without its own one.
    """

    finding: Finding
    first: int
    last: int
    alarm: int | None = None
    confirmed: bool = False
    alarm_confirmed: bool = False
    ended: int | None = None
    returns: int = 0
    before: RaisedFinding | None = None

    @property
    def is_back(self) -> bool:
        """True while it is found again after its end, and not confirmed yet."""
        return self.before is not None and not self.confirmed


@dataclass(frozen=True)
class RaisedFindings:
    """Findings that were raised in a run, by key; `update` returns the state after a further check."""

    by_key: Mapping[str, RaisedFinding] = field(default_factory=dict)

    def update(
        self, found: Sequence[Finding], steps: np.ndarray, *, settled: bool
    ) -> tuple[RaisedFindings, list[Finding]]:
        """Return the new state, and the findings with those that are held.

        Parameters
        ----------
        found : sequence of Finding
            What the rules find, before causes and symptoms are merged.
        steps : ndarray of int, shape (S,)
            The complete steps.
        settled : bool
            True if no further step is expected soon: nothing is held, and what is found is confirmed.
        """
        if not len(steps):
            return self, list(found)
        now = int(steps[-1])
        after = {
            step: len(steps) - int(np.searchsorted(steps, step, "right")) for step in self._marks | {now}
        }
        current = {each.key: each for each in reversed(found) if each.severity != "info"}
        # A step number that is lower than before: the steps since then were replaced by a restart of the job.
        known = _renamed({key: each for key, each in self.by_key.items() if each.last <= now}, current)
        state = {key: _found(known.get(key), finding, now) for key, finding in current.items()}
        state = {key: _confirmed(each, after, settled=settled) for key, each in state.items()}
        held: dict[str, Finding] = {}
        for key, each in known.items():
            if key in current:
                continue
            listed = next((other for other in found if other.key == key), None)
            hold = _hold(each)
            if each.confirmed and listed is None:
                hold = max(hold, UNLISTED)
            is_over = each.ended is None and (settled or after[each.last] >= hold)
            ended = each.before if each.before is not None and each.is_back else replace(each, ended=now)
            state[key] = ended if is_over else each
            if state[key].ended is None and not each.is_back:
                held[key] = _held(listed or each.finding, each.last)
        shown = [_again(each, state.get(each.key)) for each in found if each.key not in held]
        return RaisedFindings(_bounded(state)), [*shown, *held.values()]

    def records(self, found: Sequence[Finding]) -> list[Finding]:
        """Return the confirmed findings that have ended and that the rules do not list any more."""
        listed = {key for each in found for key in keys_of(each)}
        return [
            replace(
                each.finding,
                severity="info",
                ongoing=False,
                evidence=(
                    *each.finding.evidence,
                    f"Raised in step {each.first:,} and found up to step {each.last:,}; the run as it was in "
                    f"step {each.ended:,} does not show it.",
                ),
            )
            for key, known in self.by_key.items()
            for each in (known.before if known.before is not None and known.is_back else known,)
            if each.ended is not None and each.confirmed and key not in listed
        ]

    @property
    def _marks(self) -> set[int]:
        """Steps whose distance to the newest one matters."""
        marks = {step for each in self.by_key.values() for step in (each.first, each.last, each.alarm)}
        return {step for step in marks if step is not None}

    @property
    def milestones(self) -> dict[str, tuple[int, bool, bool, int | None]]:
        """Parts of each state whose change is saved; a new step of a finding that continues is not."""
        return {
            key: (each.first, each.confirmed, each.alarm_confirmed, each.ended)
            for key, each in self.by_key.items()
        }

    def text(self) -> str:
        """Return the state as the text that `parse_raised` reads."""
        raised = [asdict(each) for each in self.by_key.values()]
        for each in [*raised, *(each["before"] for each in raised if each["before"] is not None)]:
            each["finding"]["steps"] = _spans(each["finding"]["steps"])
        return json.dumps({"version": _VERSION, "raised": raised}, default=int)  # numpy's integers


def keys_of(finding: Finding) -> set[str]:
    """Return the keys of a finding and of its symptoms."""
    return {finding.key}.union(*(keys_of(each) for each in finding.symptoms))


def sure(finding: Finding, raised: Mapping[str, RaisedFinding]) -> Finding | None:
    """Return a leading finding as severe as it is for sure; None until it is confirmed.

    What depends on the clock only, or is about rlpanel itself, has no entry and is sure at once.
    """
    own = raised.get(finding.key)
    if own is None or finding.severity != "alarm":
        return finding if own is None or own.confirmed else None
    if any(raised[key].alarm_confirmed for key in keys_of(finding) & raised.keys()):
        return finding
    return replace(finding, severity="warning") if own.confirmed else None


def parse_raised(text: str) -> RaisedFindings:
    """Return the state that a saved text holds; an empty one if it holds anything else."""
    try:
        content = json.loads(text)
        if content["version"] != _VERSION:
            return RaisedFindings()
        raised = [_parsed(each) for each in content["raised"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return RaisedFindings()
    return RaisedFindings({each.finding.key: each for each in raised})


def _spans(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending steps as spans of consecutive ones, both ends included."""
    values = np.asarray(steps, np.int64)
    if not len(values):
        return []
    ends = np.flatnonzero(np.diff(values) != 1)
    return list(
        zip(values[np.append(0, ends + 1)].tolist(), values[np.append(ends, -1)].tolist(), strict=True)
    )


def _parsed(saved: dict[str, Any]) -> RaisedFinding:
    """Return a saved entry; ValueError, TypeError or KeyError if a value is not one that `text` writes."""
    finding = dict(saved["finding"])
    steps = tuple(step for first, last in finding["steps"] for step in range(first, last + 1))
    finding |= {"steps": steps, "evidence": tuple(finding["evidence"]), "symptoms": ()}
    before = None if saved["before"] is None else _parsed(saved["before"])
    entry = RaisedFinding(**{**saved, "finding": Finding(**finding), "before": before})
    of_text = [each.name for each in fields(Finding) if isinstance(each.default, str)]
    texts = [*(getattr(entry.finding, name) for name in ("sentence", *of_text)), *entry.finding.evidence]
    optional = (entry.alarm, entry.ended, entry.finding.worst, entry.finding.rank)
    numbers = [entry.first, entry.last, entry.returns, *(each for each in optional if each is not None)]
    is_valid = all(isinstance(each, str) for each in texts) and all(type(each) is int for each in numbers)
    if entry.finding.severity not in SEVERITIES or not is_valid:
        raise ValueError("not a finding that was saved")
    return entry


def _renamed(known: dict[str, RaisedFinding], current: Mapping[str, Finding]) -> dict[str, RaisedFinding]:
    """Return the known entries, those of a rule in `_BY_STEP` by the key that their change has now."""
    entries = dict(known)
    for key, finding in current.items():
        if finding.rule not in _BY_STEP or finding.onset is None:
            continue
        near = [
            each
            for each in entries.values()
            if each.finding.rule == finding.rule
            and each.finding.key not in current
            and each.finding.onset is not None
            and abs(each.finding.onset - finding.onset) <= _SAME_STEP
        ]
        if key in entries:
            near.append(entries[key])
        if not near:
            continue
        for each in near:
            entries.pop(each.finding.key)
        # One that goes on is not raised again by one that had ended.
        entries[key] = min(near, key=lambda each: (each.ended is not None, each.first))
    return entries


def _found(known: RaisedFinding | None, finding: Finding, now: int) -> RaisedFinding:
    """Return the entry of a finding that was found just now."""
    plain = replace(finding, symptoms=())
    if known is None:
        known = RaisedFinding(plain, now, now)
    elif known.ended is not None:
        known = RaisedFinding(plain, now, now, returns=known.returns, before=replace(known, before=None))
    is_alarm = finding.severity == "alarm"
    since = known.alarm if known.alarm is not None else now
    return replace(known, finding=plain, last=now, alarm=since if is_alarm else None)


def _confirmed(raised: RaisedFinding, after: Mapping[int, int], *, settled: bool) -> RaisedFinding:
    """Note whether a finding that was found just now has lasted long enough."""
    lasts = settled or after[raised.first] >= _patience(raised)
    alarms = raised.alarm is not None and (settled or after[raised.alarm] >= PATIENCE)
    return replace(
        raised,
        confirmed=raised.confirmed or lasts,
        alarm_confirmed=raised.alarm_confirmed or alarms,
        returns=raised.returns + (lasts and raised.is_back),
    )


def _hold(raised: RaisedFinding) -> int:
    """Return after how many steps without it a finding has ended."""
    return HOLD << min(raised.returns + raised.confirmed, _MAX_RETURNS)


def _patience(raised: RaisedFinding) -> int:
    """Return after how many steps with it a finding is confirmed.

    One that has ended and is found again for steps of before its end took `_hold` steps to end, and takes as
    many to come back: often it is the other edge of the change that has ended, such as the return to normal.
    """
    before = raised.before
    if before is None or before.ended is None or not raised.is_back:
        return PATIENCE
    onset = raised.finding.onset
    return PATIENCE if onset is not None and onset > before.ended else _hold(before)


def _again(finding: Finding, raised: RaisedFinding | None) -> Finding:
    """Return a finding that is raised again as one that says so; an info until it is confirmed."""
    if raised is None or raised.before is None or raised.ended is not None or finding.severity == "info":
        return finding
    end, onset = raised.before.ended, finding.onset
    note = f"It was raised before, and had ended in step {end:,}."
    if end is not None and onset is not None and onset > end:  # another episode
        note = f"Again since step {onset:,}: it was raised before, and had ended in step {end:,}."
    severity = "info" if raised.is_back else finding.severity
    return replace(finding, severity=severity, evidence=(note, *finding.evidence))


def _held(finding: Finding, last: int) -> Finding:
    """Return a finding that is not found at the moment, as it is shown until it ends or returns."""
    note = f"It was found up to step {last:,}; the steps after that do not show it clearly."
    return replace(finding, severity="warning", ongoing=False, evidence=(*finding.evidence, note))


def _bounded(state: dict[str, RaisedFinding]) -> dict[str, RaisedFinding]:
    """Leave out the findings that ended first, beyond `_REMEMBERED`."""
    ended = sorted((each.ended, key) for key, each in state.items() if each.ended is not None)
    for _, key in ended[: max(0, len(ended) - _REMEMBERED)]:
        del state[key]
    return state
