"""The failures of a run by class: infrastructure, limits and the policy's own, with the evidence."""

from __future__ import annotations

from typing import Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

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
