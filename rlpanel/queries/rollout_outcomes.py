"""How rollouts ended: failures by class, and what judges said, agreed on and cost."""

from __future__ import annotations

from typing import Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

# -- judges --------------------------------------------------------------------------------------------
# The judges of a run: what they said, whether they agree, and what they cost.


Against = Annotated[
    str,
    Option(
        help="Number column that the judges are compared with.",
        agents="Number column that the judges are compared with, such as valid_reward or reward.",
        chars=200,
        complete="sample_columns",
    ),
]
MostSamples = Annotated[
    int | None,
    Option(
        help="Maximum number of samples that are read, spread over the run; 0 reads all.",
        agents="Most samples that are read, spread over the run.",
        min=0,
        max=1_000_000,
        tool_default=5000,
        none=0,
    ),
]


@question(
    description="What each judge said about the samples, and whether judges agree; most calls first.",
    columns=(
        TableColumn("judge", "text", "Name of the judge."),
        TableColumn("models", "texts", "Models that it used."),
        TableColumn("calls", "integer", "Number of calls."),
        TableColumn("missing", "integer", "Calls that failed or gave no verdict."),
        TableColumn("failed", "integer", "Calls that failed with an error."),
        TableColumn("other_verdicts", "integer", "Calls whose verdict stands for no number."),
        TableColumn("samples", "integer", "Samples with a score of this judge."),
        TableColumn("mean", "number", "Mean of its scores."),
        TableColumn(
            "kappa", "number", "Cohen's quadratically weighted kappa with the others, mean over them."
        ),
        TableColumn(
            "equal", "number", "Share of the common samples with the same score, mean over the others."
        ),
        TableColumn("alpha_without", "number", "Krippendorff's alpha of the other judges without this one."),
        TableColumn(
            "kappa_reward", "number", "Weighted kappa with the column that judges are compared with."
        ),
        TableColumn("seconds", "number", "Sum of the times of its calls that log one.", "seconds"),
        TableColumn("timed", "integer", "Calls that log their time."),
        TableColumn("prompt_tokens", "number", "Tokens that it read.", "tokens"),
        TableColumn("answer_tokens", "number", "Tokens that it wrote.", "tokens"),
        TableColumn("cost", "number", "Cost as logged.", "dollars"),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("samples", "integer", "Samples with calls of judges."),
        TableColumn("read", "integer", "Samples that were read."),
        TableColumn("unread", "integer", "Samples whose line cannot be read any more."),
        TableColumn("against", "text", "Column that the judges are compared with; null if the run lacks it."),
        TableColumn("alpha", "number", "Krippendorff's alpha of all judges, with the interval metric."),
        TableColumn("other_judges", "integer", "Judges beyond the first 100, which have no row."),
        TableColumn(
            "disagreements", "objects", "Samples at which judges disagree most: uid, step, spread, scores."
        ),
        TableColumn("note", "text", "What to log if there is no judge; else empty."),
    ),
    frame=(
        *("judge", "calls", "missing", "samples", "mean", "kappa", "equal", "alpha_without", "kappa_reward"),
        *("seconds", "prompt_tokens", "answer_tokens", "models"),
    ),
    has_relation=False,
    example="rlpanel judges runs/exp1",
    agents="Compare the judges of a run: means, agreement (kappa, alpha), missing verdicts, time, tokens, "
    "and the samples at which they disagree most.",
)
def judges(run: RunData, against: Against = "valid_reward", most: MostSamples = None) -> Table:
    """Return what each judge said, and whether judges agree with each other and with a reward.

    Parameters
    ----------
    run : RunData
    against : str
        Number column that the judges are compared with.
    most : int, optional
        Largest number of samples that are read; all by default.

    Raises
    ------
    SettingError
        If the run lacks a column that was asked for; without ``valid_reward`` the comparison is left out.
    """
    from dataclasses import asdict

    from rlpanel.outcomes.judge_study import study_judges
    from rlpanel.queries.run_columns import chosen

    if against != "valid_reward":
        chosen([against], run.view.number_names, (), "number column")
    *_, last = study_judges(run.index, run.view, against, most)
    rows = []
    for each in last.judges:
        row = asdict(each)
        rows.append({"judge": row.pop("name"), **row})
    note = "" if last.total else "no judge is logged: log judge_calls, see docs/agents.md"
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "samples": last.total,
        "read": last.read,
        "unread": last.unread,
        "against": against if run.view.has(against) else None,
        "alpha": last.alpha,
        "other_judges": last.other_judges,
        "disagreements": [asdict(each) for each in last.disagreements],
        "note": note,
    }
    return judges.table(rows, about=about)


# -- failures ------------------------------------------------------------------------------------------
# The failures of a run by class: infrastructure, limits and the policy's own, with the evidence.


FailuresPerStep = Annotated[
    int | None,
    Option(
        help="Most failed samples of each step whose texts are read; 0 reads all.",
        agents="Most failed samples of each step whose texts are read; others count as not_read.",
        min=0,
        max=100_000,
        tool_default=32,
        none=0,
    ),
]


@question(
    description="Failed samples by class, infrastructure apart from wrong answers.",
    columns=(
        TableColumn(
            "failure",
            "text",
            "timeout, environment_crash, grader_crash, context_full, cut_off, malformed_call, tool_error, "
            "refusal, wrong_answer, unclassified or not_read.",
        ),
        TableColumn("kind", "text", "infrastructure, limit, policy or unknown."),
        TableColumn("count", "integer", "Number of samples."),
        TableColumn("share", "number", "Share of all samples."),
        TableColumn("share_of_failed", "number", "Share of the failed samples."),
        TableColumn(
            "inferred", "integer", "Samples whose class was inferred from texts; the log names the others."
        ),
        TableColumn("first_step", "integer", "First step with such a sample."),
        TableColumn("steps", "objects", "Number at each step with such a sample: step, count, samples."),
        TableColumn("environments", "object", "Number by the label env; empty without one."),
        TableColumn("examples", "objects", "The newest samples: uid, step, inferred, evidence, place."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("samples", "integer", "Samples of the split, with those discarded from it."),
        TableColumn("failed", "integer", "Failed samples."),
        TableColumn("unjudged", "integer", "Samples with neither a reward nor a status."),
        TableColumn("read", "integer", "Samples whose texts were read."),
        TableColumn("unread", "integer", "Samples whose line cannot be read any more."),
        TableColumn("pass_reward", "number", "Reward of a sample that passes; null if rewards are graded."),
        TableColumn("note", "text", "What to log if nothing can be said; else empty."),
    ),
    frame=("failure", "kind", "count", "share", "share_of_failed", "inferred", "first_step", "examples"),
    has_relation=False,
    example="rlpanel failures runs/exp1",
    agents="Count failed samples by class (time-out, crash of environment or grader, context full, malformed "
    "call, refusal, wrong answer), by step and environment, each with quoted evidence.",
)
def failures(run: RunData, per_step: FailuresPerStep = None) -> Table:
    """Return the failed samples by class, each with the words that place it there.

    A logged status decides first. Else texts are read, and the class counts as inferred. A sample without
    evidence is unclassified.

    Parameters
    ----------
    run : RunData
    per_step : int, optional
        Most failed samples of each step whose texts are read; all by default.
    """
    from dataclasses import asdict

    from rlpanel.outcomes.failure_study import failures_of

    *_, last = failures_of(run.index).study(run.view, per_step)
    rows = [
        {
            "failure": each.name,
            "kind": each.kind,
            "count": each.count,
            "share": each.count / last.samples,
            "share_of_failed": each.count / last.failed,
            "inferred": each.inferred,
            "first_step": each.first_step,
            "steps": [
                {"step": step, "count": count, "samples": samples}
                for step, count, samples in zip(
                    last.steps.tolist(), each.by_step.tolist(), last.of_step.tolist(), strict=True
                )
                if count
            ],
            "environments": each.by_environment,
            "examples": [asdict(example) for example in each.examples],
        }
        for each in last.classes
    ]
    note = ""
    if last.samples and last.unjudged == last.samples:
        note = "neither rewards nor statuses are logged: log reward and status"
    elif last.least != last.least:
        note = "low rewards are no failures, because rewards are graded: set pass_reward in run.json"
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "samples": last.samples,
        "failed": last.failed,
        "unjudged": last.unjudged,
        "read": last.read,
        "unread": last.unread,
        "pass_reward": last.least,
        "note": note,
    }
    return failures.table(rows, about=about)
