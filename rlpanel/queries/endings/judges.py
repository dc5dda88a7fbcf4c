"""The judges of a run: what they said, whether they agree, and what they cost."""

from __future__ import annotations

from typing import Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

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
