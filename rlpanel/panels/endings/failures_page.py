"""Page of the run: failures by class over steps with their evidence, and the judges side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import param

from rlpanel.number_text import number
from rlpanel.outcomes.failure_study import FailureClass, FailureStudy, failures_of
from rlpanel.outcomes.judge_study import JudgeRow, JudgeStudy, has_judges, study_judges
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.explain.link_rows import show_samples
from rlpanel.panels.explain.sampled_page import SampledPage
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible

#: Failed samples of each step whose texts the page reads by itself, and samples with judges.
PER_STEP, MAX_JUDGED = 16, 2000
#: Most bars of a class.
BARS = 100
#: Samples at which judges disagree that are listed.
SHOWN = 8

#: Label of each class, and of each kind.
CLASS_LABELS = {
    "timeout": marked("time-out"),
    "environment_crash": marked("crash of the environment"),
    "grader_crash": marked("crash of the grader"),
    "context_full": marked("context full"),
    "cut_off": marked("cut off"),
    "malformed_call": marked("malformed tool call"),
    "tool_error": marked("tool error"),
    "refusal": marked("refusal"),
    "wrong_answer": marked("wrong answer"),
    "unclassified": marked("unclassified"),
    "not_read": marked("texts not read yet"),
}
KIND_LABELS = {
    "infrastructure": marked("infrastructure"),
    "limit": marked("limit"),
    "policy": marked("policy"),
    "unknown": marked("unknown"),
}


def has_failures(snapshot: Snapshot) -> bool:
    """Return whether the run logs rewards, statuses or judges, of which failures follow."""
    return bool(snapshot.has_number("reward") or "status" in snapshot.labels or has_judges(snapshot))


@dataclass(frozen=True)
class _Found:
    failures: FailureStudy
    judges: JudgeStudy | None = None


class FailuresView(Component):
    """Classes and judges, drawn by ``failures_view.js``; a click calls ``pick`` with a class or a uid."""

    classes = param.List(default=[], doc="Classes as made by `class_row`.")
    judges = param.Dict(default={}, doc="Judges as made by `judges_payload`; empty without any.")

    _esm = read_assets("panels/ui/dom.js", "panels/endings/failures_view.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/endings/failures_view.css")]

    def __init__(self, pick: Callable[[str, str], None]) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 8), css_classes=["rl-failures-view"])
        self._pick = pick

    def receive(self, message: Any) -> None:
        """Open what was clicked; the classes may have changed since."""
        known = {("class", row["name"]) for row in self.classes}
        known |= {("sample", each["uid"]) for row in self.classes for each in row["examples"]}
        known |= {("judged", each["uid"]) for each in self.judges.get("samples", ())}
        if isinstance(message, list) and tuple(map(str, message)) in known:
            self._pick(*message)


class FailuresPage(SampledPage[_Found]):
    """Failures and judges, read in the background while the page is open.

    It reads the texts of some failed samples of each step; the others are read on demand.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context, **params: Any) -> None:
        self._where: dict[str, FailureClass] = {}
        self.view = FailuresView(self._pick)
        all_failed = tr("Read all failed samples")
        super().__init__(
            context, self.view, kind="failures", read_all=all_failed, per_step=PER_STEP, **params
        )

    def read(self, index: RunIndex, view: RunView) -> Iterator[_Found]:
        """Read the texts of failed samples, then the calls of judges."""
        last = FailureStudy(0, 0)
        for last in failures_of(index).study(view, self.most):
            yield _Found(last)
        if has_judges(view.snapshot):
            for judges in study_judges(index, view, most=MAX_JUDGED):
                yield _Found(last, judges if judges.is_done else None)

    def clear(self) -> None:
        """Show neither classes nor judges."""
        self.view.param.update(classes=[], judges={})

    def show_found(self, found: _Found) -> None:
        """Show the progress, the classes, then the judges."""
        study = found.failures
        if not study.samples:
            self.say_progress(
                tr("Reading {read:,} of {total:,} failed samples …", read=study.read, total=study.total)
            )
            return
        self._where = {each.name: each for each in study.classes}
        self.note.html = note_html(study_words(study, self.context.snapshot))
        rows = [class_row(each, study) for each in study.classes]
        self.view.param.update(classes=rows, judges=judges_payload(found.judges))
        if found.judges is None and has_judges(self.context.snapshot):
            return  # the judges follow
        self.end(has_more="not_read" in self._where)

    def _pick(self, kind: str, key: str) -> None:
        tab = "judging" if kind == "judged" else "conversation"
        where, uids = "", [key]
        if kind == "class" and key in self._where:
            found = self._where[key]
            where, uids = found.where, [each.uid for each in found.examples]
        show_samples(self.context, where, uids)
        self.context.selection.param.update(page="samples", tab=tab)


def study_words(study: FailureStudy, snapshot: Snapshot) -> str:
    """Return how many samples failed, and what is not known."""
    parts = [
        tr("{failed:,} of {samples:,} samples failed.", failed=study.failed, samples=study.samples)
        if study.failed
        else tr("None of {samples:,} samples failed.", samples=study.samples)
    ]
    if np.isfinite(study.least):
        parts.append(tr("A sample passes with a reward of {reward}.", reward=number(study.least)))
    elif snapshot.has_number("reward"):
        parts.append(
            tr(
                "Rewards are graded, so a low one is no failure; "
                "pass_reward in run.json sets when a sample passes."
            )
        )
    if study.unjudged:
        parts.append(
            tr("{samples:,} samples have neither a reward nor a status: log status.", samples=study.unjudged)
        )
    if study.unread:
        parts.append(tr("{samples:,} lines cannot be read any more.", samples=study.unread))
    return " ".join(parts)


def class_row(found: FailureClass, study: FailureStudy) -> dict[str, Any]:
    """Return a class as plain texts, its shares of steps as bars."""
    counts, samples, steps = found.by_step, study.of_step, study.steps
    edges = np.unique(np.linspace(0, len(steps), min(BARS, len(steps)) + 1).astype(int))
    bars = [
        [
            int(counts[a:b].sum()),
            int(samples[a:b].sum()),
            f"{steps[a]:,}" if b - a == 1 else f"{steps[a]:,}–{steps[b - 1]:,}",
        ]
        for a, b in pairwise(edges)
    ]
    environments = sorted(found.by_environment.items(), key=lambda each: -each[1])[:8]
    return {
        "name": found.name,
        "label": tr(CLASS_LABELS[found.name]),
        "kind": found.kind,
        "kind_label": tr(KIND_LABELS[found.kind]),
        "count": found.count,
        "share": f"{100 * found.count / study.samples:.3g} %",
        "inferred": tr("{count:,} inferred from texts", count=found.inferred) if found.inferred else "",
        "first": tr("since step {step:,}", step=found.first_step),
        "bars": bars,
        "environments": [[escape_invisible(name or "–"), count] for name, count in environments],
        "limit": tr("the filter shows {shown:,}", shown=found.shown) if found.shown < found.count else "",
        "examples": [
            {
                "uid": each.uid,
                "step": tr("step {step:,}", step=each.step),
                "place": escape_invisible(each.place),
                "words": escape_invisible(each.evidence),
                "inferred": each.inferred,
            }
            for each in found.examples
        ],
    }


def judges_payload(study: JudgeStudy | None) -> dict[str, Any]:
    """Return the judges as rows of texts, and the samples at which they disagree most."""
    if study is None:
        return {}
    words = [tr("{samples:,} samples with judge calls.", samples=study.total)]
    if study.left_out:
        words.append(tr("{read:,} of them were read, spread over the run.", read=study.read))
    if np.isfinite(study.alpha):
        words.append(tr("Krippendorff's alpha of all judges is {alpha}.", alpha=number(study.alpha)))
    elif len(study.judges) < 2:
        words.append(tr("Agreement needs two judges that score the same samples."))
    if study.other_judges:
        words.append(tr("{judges:,} further judges have no row.", judges=study.other_judges))
    return {
        "words": " ".join(words),
        "heads": [
            *(tr("judge"), tr("calls"), tr("no verdict"), tr("mean score"), tr("kappa with the others")),
            *(tr("kappa with valid_reward"), tr("seconds per call"), tr("tokens per call")),
        ],
        "rows": [_judge_texts(each) for each in study.judges],
        "samples": [
            {
                "uid": each.uid,
                "step": tr("step {step:,}", step=each.step),
                "words": " · ".join(
                    f"{escape_invisible(name)} {number(score)}" for name, score in [*each.scores.items()][:8]
                ),
            }
            for each in study.disagreements[:SHOWN]
        ],
    }


def _judge_texts(judge: JudgeRow) -> list[str]:
    def known(value: float) -> str:
        return number(value) if np.isfinite(value) else "–"

    tokens = np.nansum([judge.prompt_tokens, judge.answer_tokens]) / max(judge.calls, 1)
    seconds = judge.seconds / judge.timed if judge.timed else np.nan
    return [
        escape_invisible(judge.name),
        f"{judge.calls:,}",
        f"{judge.missing:,}",
        *map(known, (judge.mean, judge.kappa, judge.kappa_reward, seconds, tokens or np.nan)),
    ]
