"""Runs all rules over a snapshot, and keeps the results per run and split for all sessions and the alerts.

Merges findings that share steps and place: the likely cause leads, its symptoms are listed below it.
"""

from __future__ import annotations

import logging
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import xxhash

from rlpanel.analysis.step_texts import RunTexts
from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.findings.engine.places import PlaceSeries
from rlpanel.findings.engine.raised import RaisedFindings, parse_raised
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from rlpanel.findings.engine.signal import BLOCK_ROWS, WINDOW
from rlpanel.findings.explained import Explanation, Key, explained
from rlpanel.settings import FindingSettings
from rlpanel.store.cache.run_cache import read_saved_text, save_text
from rlpanel.store.columns.page_memory import trim_heap
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.remarks import steps_text
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Rules, or a rule and the begin of its subject, from causes to symptoms; the longest that fits counts.
CAUSES = (
    "rank_repeats",
    "rank_stale",
    "missing_rank",
    "scalars_not_finite",
    "learning_rate_zero",
    "learning_rate_jumps",
    "gradient_zero",
    "mixed_groups",
    "single_groups",
    "prompts_again",
    "samples_again",
    "prompts_shared",
    "evaluation_leak",
    "truth_missing",
    "truth_changed",
    "truth_form",
    "truth_in_prompt",
    "prompt_template",
    "missing_parts",
    "sum_changes",
    "mask_on_results",
    "shifted_logprobs",
    "teacher_scores",
    "not_finite",
    "odd_fields",
    "environment_errors",
    "tool_fails",
    "no_answer",
    "tool_results",
    "new_result",
    "missing_rewards",
    "missing_as_zero",
    "discarded_samples",
    "class_unrewarded",
    "right_unrewarded",
    "wrong_rewarded",
    "cut_unmarked",
    "stale_samples",
    "fewer_samples",
    "groups_incomplete",
    "label_mix",
    "lag_grows",
    "not_finite:advantage",
    "engine:",
    "engine_change",
    "kl_zero",
    "kl_falls",
    "ratio:",
    "ratio_spread",
    "gradient_grows",
    "advantage_explodes",
    "advantage_sign",
    "advantage_centre",
    "advantage_scale",
    "special_tokens",
    "prompt_echo",
    "empty_responses",
    "invalid_text",
    "language_drift",
    "foreign_letters",
    "equal_calls",
    "several_answers",
    "new_phrase",
    "loops",
    "answers_unclear",
    "collapse",
    "sustained_change:surprisal",
    "truncated",
    "turns_collapse",
    "errors_rewarded",
    "duplicates",
    "sustained_change:kl",
    "kl_spike",
    "rank_differs",
    "sustained_change:response",
    "evaluation_frozen",
    "evaluation_run",
    "evaluation_falls",
    "held_out",
    "reward_jumps",
    "wrong_grow",
    "best_falls",
    "length_reward",
    "critic_variance",
    "critic_error",
    "negative_kl",
    "sustained_change:rewards/",
    "sustained_change",
    "kl_spike:lasting",
    "one_value",
    "zero_variance",
    "outlier",
    "something_changed",
)
#: Onsets this close belong together: steps, and share of the run.
_NEAR_STEPS, _NEAR_SHARE = 4, 0.08
#: Smallest share of the shorter finding's steps that both findings have.
_OVERLAP = 0.5
#: Steps, and share of the run, by which a cause may begin after the sustained change of a curve.
_LATE_STEPS, _LATE_SHARE = 2, 0.04
#: Rule that says that something changed: a symptom of whatever has a name.
_UNNAMED = "something_changed"
#: Rules that read some samples of each step: their onset is less exact, so they may begin later.
_READING = frozenset(
    {
        *("truth_missing", "truth_changed", "truth_in_prompt", "prompt_template", "mask_on_results"),
        *("tool_results", "new_result", "equal_calls", "several_answers", "loops", "new_phrase"),
    }
)


def merged(findings: Sequence[Finding], steps: np.ndarray) -> list[Finding]:
    """Merge the findings of one cause.

    Parameters
    ----------
    findings : sequence of Finding
    steps : ndarray of int, shape (S,)
        The complete steps of the run.

    Returns
    -------
    list of Finding
        The leading findings, each with its symptoms. The likely cause leads, unless it begins clearly later
        than the sustained change of a curve. A leading finding is as severe as its worst symptom that goes
        on.
    """
    leading: list[list[Finding]] = []
    told = [each for each in findings if not _is_repeated(each, findings, steps)]
    for finding in sorted(told, key=_rank_of_cause):
        family = next((family for family in leading if _same_cause(family[0], finding, steps)), None)
        if family is None:
            leading.append([finding])
        else:
            family.append(finding)
    return [_lead(family, steps) for family in leading]


def _rank_of_cause(finding: Finding) -> int:
    names = [each for each in CAUSES if finding.key.startswith(each if ":" in each else f"{each}:")]
    return CAUSES.index(max(names, key=len)) if names else len(CAUSES)


def _same_cause(cause: Finding, finding: Finding, steps: np.ndarray) -> bool:
    """Return True if both begin together, last together, and hold in the same place."""
    if not cause.steps or not finding.steps:
        return False
    if cause.rank is not None and finding.rank is not None and cause.rank != finding.rank:
        return False
    if cause.category and finding.category and cause.category != finding.category:
        return False
    near = max(_NEAR_STEPS, _NEAR_SHARE * len(steps))
    if finding.rule == _UNNAMED:  # of a ramp, it names the steepest step
        near *= 2
    first, second = _first(cause, steps), _first(finding, steps)
    shared = len(set(cause.steps) & set(finding.steps))
    return abs(first - second) <= near and shared >= _OVERLAP * min(len(cause.steps), len(finding.steps))


def _lead(family: list[Finding], steps: np.ndarray) -> Finding:
    """Return the likely cause of a family, with the others as its symptoms.

    It is the first finding that does not begin later than the sustained change of a curve, as far as its
    onset is exact.
    """
    if len(family) == 1:
        return family[0]
    changes = [_first(each, steps) for each in family if each.rule == "sustained_change"]
    begin = min(changes, default=len(steps))
    near, exact = max(_NEAR_STEPS, _NEAR_SHARE * len(steps)), max(_LATE_STEPS, _LATE_SHARE * len(steps))
    cause = next(
        each for each in family if _first(each, steps) <= begin + (near if each.rule in _READING else exact)
    )
    severity = min((each.severity for each in family), key=SEVERITIES.index)
    return replace(cause, severity=severity, symptoms=tuple(each for each in family if each is not cause))


def _is_repeated(finding: Finding, findings: Sequence[Finding], steps: np.ndarray) -> bool:
    """Return True for outlying steps that are the first ones of a sustained change of the same curve.

    The median that an outlier is compared with needs a window of steps to follow the change.
    """
    if finding.rule != "outlier":
        return False
    changes = (
        each
        for each in findings
        if each.rule == "sustained_change" and (each.column, each.sort) == (finding.column, finding.sort)
    )
    return any(set(finding.steps) <= set(steps[_first(each, steps) :][:WINDOW].tolist()) for each in changes)


def _first(finding: Finding, steps: np.ndarray) -> int:
    """Return the position of a finding's onset."""
    return int(np.searchsorted(steps, finding.steps[0]))


#: Name in the place of the rule's in the finding of a rule that failed; its subject is the rule.
FAILED = "rule_failed"
#: Rules of a check of new steps after which memory is released.
_RELEASED_EVERY = 10
#: Most times of arrival that are kept.
_ARRIVALS = 20
#: Most characters of an error, which may quote a value of the log.
_MAX_REASON = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckResult:
    """Findings of a run.

    Attributes
    ----------
    findings : list of Finding
        All findings, alarms first, then by newest step.
    data_version : tuple of int
        Versions of the snapshot and of its scalars, number of complete steps, and whether the next line is
        overdue. While all stay the same, `steady` is reused.
    steady : list of Finding
        The findings of rules that do not depend on the clock.
    place_series : PlaceSeries, optional
        Means by place and step, which the next check reuses for steps that do not change.
    texts : RunTexts, optional
        Texts of some samples of each step, which the next check reuses likewise.
    raised : RaisedFindings, optional
        What was raised in the checks so far; None if that is not followed.
    arrivals : tuple of (float, int)
        See `RuleContext`.
    explanations : dict
        What was found out about findings on curves, which the next check reuses likewise.
    """

    findings: list[Finding]
    data_version: tuple[int, int, int, bool]
    steady: list[Finding]
    place_series: PlaceSeries | None = None
    texts: RunTexts | None = None
    raised: RaisedFindings | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    explanations: dict[Key, Explanation] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """True if a rule raised an error, so that its findings are missing in `steady`."""
        return any(finding.rule == FAILED for finding in self.steady)


class CheckEnded(Exception):
    """A check was given up, because nobody waits for its result any more."""


def check(
    view: RunView,
    thresholds: FindingSettings,
    now: float,
    previous: CheckResult | None = None,
    index: RunIndex | None = None,
    raised: RaisedFindings | None = None,
    ended: Callable[[], bool] = bool,
) -> CheckResult:
    """Run the rules; findings that do not depend on the clock are reused from a previous result.

    Parameters
    ----------
    view : RunView
    thresholds : FindingSettings
    now : float
        Seconds since the epoch. Decides whether the last step is complete, and how old the newest line is.
    previous : CheckResult, optional
        An earlier result for the same run and thresholds. Reused if no row or complete step was added.
    index : RunIndex, optional
        Index through which the rules on texts read some samples of each step; without it they find nothing.
    raised : RaisedFindings, optional
        What was raised before the first check that is followed. Without it, and without that of ``previous``,
        the findings only depend on the data.
    ended : callable
        Returns True once nobody waits for the result; it is asked before each rule.

    Returns
    -------
    CheckResult
        Alarms come first, then the newest. A rule that raises an error has a finding that says so, see
        `failure`; the other rules still run.

    Raises
    ------
    CheckEnded
    """
    arrivals = previous.arrivals if previous is not None else ()
    context = RuleContext(
        view, thresholds, now, previous.place_series if previous is not None else None, arrivals=arrivals
    )
    snapshot, state = view.snapshot, previous.raised if previous is not None else raised
    explanations = previous.explanations if previous is not None else {}
    data_version = snapshot.version, len(context.steps), snapshot.scalars.version, context.is_overdue
    if previous is not None and previous.data_version == data_version:
        steady, series, texts = previous.steady, previous.place_series, previous.texts
    else:
        texts = _texts(context, previous, index, ended)
        context = replace(context, texts=texts)
        found = _run_rules(context, ended, clock=False)
        if state is not None:
            state, found = state.update(found, context.steps, settled=context.is_overdue)
        steady, explanations = explained(merged(found, context.steps), view, index, explanations)
        steady += state.records(steady) if state is not None else []
        steady = [_with_doubts(finding, snapshot) for finding in steady]
        # Of a new step, only what a rule or a page reads is computed.
        steady += _failed_metrics(view.failed_metrics if previous is None else view.known_failures)
        series = context.place_series.release() if len(context.steps) else None
    results = sorted([*steady, *_run_rules(context, ended, clock=True)], key=_urgency)
    _log_failures(view.snapshot.name, results, previous)
    if not arrivals or arrivals[-1][1] < len(context.steps):
        arrivals = (*arrivals[-_ARRIVALS:], (snapshot.newest_line, len(context.steps)))
    return CheckResult(results, data_version, steady, series, texts, state, arrivals, explanations)


def _texts(
    context: RuleContext, previous: CheckResult | None, index: RunIndex | None, ended: Callable[[], bool]
) -> RunTexts | None:
    """Return the texts of some samples of each complete step; those that are known are not read again."""
    if index is None:
        return None
    known = previous.texts if previous is not None else None
    texts = known.copy() if known is not None else RunTexts()
    texts.read(index, context.snapshot, context.steps, ended)
    return texts


def _urgency(finding: Finding) -> tuple[int, int]:
    """Sort key: alarms first, then the newest."""
    return SEVERITIES.index(finding.severity), -max(finding.steps, default=0)


def _with_doubts(finding: Finding, snapshot: Snapshot) -> Finding:
    """Say in a finding which of its steps may hold other samples than it seems; see `Snapshot.remarks`."""
    concerned = [set(finding.steps) & set(remark.steps) for remark in snapshot.remarks]
    doubts = [
        f"{steps_text(sorted(steps))} {remark.short}"
        for remark, steps in zip(snapshot.remarks, concerned, strict=True)
        if steps and not (remark.kind == "groups" and finding.rule == "mixed_groups")  # the same again
    ]
    symptoms = tuple(_with_doubts(symptom, snapshot) for symptom in finding.symptoms)
    if not doubts:
        return replace(finding, symptoms=symptoms)
    sentence = f"{finding.sentence.removesuffix('.')} ({'; '.join(doubts)})."
    return replace(finding, sentence=sentence, symptoms=symptoms)


def findings(view: RunView, thresholds: FindingSettings, now: float) -> list[Finding]:
    """Return the findings of a run; see `check`."""
    return check(view, thresholds, now).findings


def failure(rule: Rule, error: Exception) -> Finding:
    """Return the finding that stands for a rule that raised an error: what it would find is not known."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_REASON]
    return Finding(
        severity="warning",
        sentence=f"The rule {rule.name} ({rule.label}) failed, so its findings are missing: {reason}",
        evidence=(f"It failed in {Path(place.filename).name}, line {place.lineno}.",),
        advice="This is a fault of rlpanel: report it with this line. The other rules were checked.",
        subject=rule.name,
        rule=FAILED,
        title="Rule failed",
    )


def _failed_metrics(failures: Mapping[str, str]) -> list[Finding]:
    """Return a finding for each metric that raised an error, from its text."""
    return [
        Finding(
            severity="warning",
            sentence=f"The metric {name} failed, so its values are missing: {reason}",
            advice="Correct it if it is your own, else report it with this line. The others have values.",
            subject=name,
            rule=FAILED,
            title="Metric failed",
        )
        for name, reason in failures.items()
    ]


def _run_rules(context: RuleContext, ended: Callable[[], bool], *, clock: bool) -> list[Finding]:
    """Run the rules that depend on the clock, or those that do not."""
    results: list[Finding] = []
    if not len(context.steps):
        return results
    every = 1 if context.previous is None else _RELEASED_EVERY  # of a new step, rules read few rows
    # Values near the largest float overflow in means; what is not finite is not a finding.
    with np.errstate(all="ignore"):
        for count, rule in enumerate((rule for rule in RULES.values() if rule.clock == clock), 1):
            if ended():
                raise CheckEnded
            try:
                results += list(rule.check(context))
            except Exception as error:
                results.append(failure(rule, error))
            if len(context.rows) > BLOCK_ROWS and not count % every:
                context.view.release()
    return results


def _log_failures(run: str, results: Sequence[Finding], previous: CheckResult | None) -> None:
    """Log each rule that failed, once while it keeps failing for the same reason."""
    known = {finding.sentence for finding in previous.findings} if previous is not None else set()
    for finding in results:
        if finding.rule == FAILED and finding.sentence not in known:
            logger.error("run %s: %s %s", run, finding.sentence, " ".join(finding.evidence))


#: Of the process, but held by the run's index, which is of a lower room: they end with it.
_cache: weakref.WeakKeyDictionary[RunIndex, dict[str, CheckResult]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
#: One check of a run at a time.
_checking: weakref.WeakKeyDictionary[RunIndex, threading.RLock] = weakref.WeakKeyDictionary()


def cached_findings(
    index: RunIndex,
    thresholds: FindingSettings,
    now: float,
    split: str = "",
    ended: Callable[[], bool] = bool,
) -> list[Finding]:
    """Return the current findings of a run; rules that read its rows run again only after a change.

    The worst finding of the run's default split becomes part of its summary, see `RunSummary`.

    Parameters
    ----------
    index : RunIndex
    thresholds : FindingSettings
        Must be the same for all callers in this process.
    now : float
        Seconds since the epoch.
    split : str
        The split to check; the run's default split if empty.
    ended : callable
        As in `check`, which raises `CheckEnded` then.
    """
    with _lock:
        checking = _checking.setdefault(index, threading.RLock())
    with checking:  # a second page waits, and reuses what the first one found: a large run takes many seconds
        view = index.view.in_split(split)
        name = view.snapshot.split
        with _lock:
            previous = _cache.setdefault(index, {}).get(name)
        raised = _saved_raised(index, name) if previous is None else None
        result = check(view, thresholds, now, previous, index, raised, ended)
        if previous is None:
            trim_heap()  # the first check computes all steps and frees as much as it used
        with _lock:
            _cache[index][name] = result
        if name == index.view.in_split("").snapshot.split:
            _note_worst(index, result.findings, now)
        _save_raised(index, name, previous, result)
        return result.findings


def raised_findings(index: RunIndex, split: str = "") -> RaisedFindings:
    """Return what was raised in the checks of a run's split so far; its default split if empty."""
    with _lock:
        last = _cache.get(index, {}).get(split or index.view.in_split("").snapshot.split)
    return last.raised if last is not None and last.raised is not None else RaisedFindings()


def _raised_file(split: str) -> str:
    """Return the name of the file for a split's state beside the saved columns."""
    return f"raised-{xxhash.xxh3_64_hexdigest(split.encode())}"


def _saved_raised(index: RunIndex, split: str) -> RaisedFindings:
    return parse_raised(read_saved_text(index.path, _raised_file(split)) if index.reading.cache else "")


def _save_raised(index: RunIndex, split: str, previous: CheckResult | None, result: CheckResult) -> None:
    """Save the state if a finding was raised, confirmed or ended, or came back."""
    before = previous.raised if previous is not None else None
    if result.raised is None or not index.reading.cache or not index.snapshot.progress.caught_up:
        return
    if result.raised.milestones != (before.milestones if before is not None else {}):
        save_text(index.path, _raised_file(split), result.raised.text())


def known_findings(index: RunIndex, split: str = "") -> list[Finding]:
    """Return the findings of the last check of a run's split, without a new check; empty before the first.

    Parameters
    ----------
    index : RunIndex
    split : str
        Name of the split, as the checked snapshot has it.
    """
    with _lock:
        last = _cache.get(index, {}).get(split)
    return last.findings if last is not None else []


def worst_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the worst finding that is ongoing or ended just now; None without one."""
    current = [finding for finding in findings if finding.severity != "info"]
    return min(current, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def _note_worst(index: RunIndex, findings: Sequence[Finding], now: float) -> None:
    """Note the worst finding in the run's summary; not while a backlog is read."""
    steps, worst = index.snapshot.steps.values, worst_finding(findings)
    if index.snapshot.progress.caught_up and len(steps):
        severity, sentence = (worst.severity, worst.sentence) if worst is not None else ("", "")
        counts = [sum(each.severity == kind for each in findings) for kind in ("alarm", "warning")]
        index.summaries.note_finding(
            index.path,
            severity,
            sentence,
            int(steps[-1]),
            now,
            save=index.reading.cache,
            onset=int(worst.onset) if worst is not None and worst.onset is not None else None,
            counts=(counts[0], counts[1]),
        )
