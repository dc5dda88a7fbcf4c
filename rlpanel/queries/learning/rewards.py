"""The questions for a reward: its parts, and the features of responses that it pays for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, MostTexts, Option, selection_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, STEP, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

Steps = Annotated[
    Any,
    Option(
        "A step, or steps such as 10..20.", chars=50, default="", tool_default="", shown_default="all steps",
        complete="steps", read=selection_of,
    ),
]  # fmt: skip
By = Annotated[
    Literal["run", "step"],
    Option(
        "run: one row for each part; step: also one for each step.", agents="run, or step for a row per step."
    ),
]
HeldOut = Annotated[
    str,
    Option(
        "The held-out score: a number column, or match for the match of answer and ground truth.", chars=200,
        shown_default="valid_reward, else match", complete="sample_columns",
    ),
]  # fmt: skip
REMARKS = TableColumn("remarks", "texts", "What is approximated or missing, and what to log.")


@question(
    description="Parts of the reward: mean, weight, and share of the reward's variance within groups.",
    columns=(
        STEP,
        TableColumn("part", "text", "The part; rest is what the reward holds beyond their weighted sum."),
        TableColumn("mean", "number", "Mean of the samples that have the part."),
        TableColumn("weight", "number", "Weight of the part in the reward."),
        TableColumn(
            "source", "text", "Of the weights: declared, sum (all are 1), or fitted by least squares."
        ),
        TableColumn("contribution", "number", "What the part adds to the mean reward.", "reward"),
        TableColumn(
            "share", "number", "Share of the reward's variance within groups: what the gradient sees."
        ),
        TableColumn("samples", "integer", "Samples with a finite value."),
        TableColumn("missing", "integer", "Samples without one; in the sum they count as 0."),
        TableColumn("correlations", "object", "Within groups, with other parts, length and valid_reward."),
        TableColumn("reasons", "object", "Why a value of the row is null, by its column."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("steps", "text", "The steps, such as 10..20; null for all."),
        TableColumn("samples", "integer", "Samples with a finite reward."),
        TableColumn("without_reward", "integer", "Samples without one, which are left out."),
        TableColumn("groups", "integer", "Groups of these samples."),
        TableColumn("alone", "integer", "Groups of a single sample, which have no deviation."),
        TableColumn("equal", "integer", "Groups of several samples whose rewards are equal."),
        TableColumn("exact", "number", "Share of the samples whose reward is the weighted sum of its parts."),
        REMARKS,
    ),
    relation=("step", "part", "mean", "weight", "source", "contribution", "share", "samples", "missing"),
    relation_options={"by": "step"},
    example="rlpanel reward-parts runs/exp1 --by step",
    agents="Split the reward into its parts: means, weights, and shares in what the gradient sees.",
)
def reward_parts(run: RunData, *, steps: Steps = None, by: By = "run") -> Table:
    """Return the parts of the reward with their weights, and their shares in what the gradient sees.

    Parameters
    ----------
    run : RunData
    steps : int, slice or str, optional
        A step, or steps; all by default.
    by : str
        ``run`` for one row per part; ``step`` also for one per part and step.

    Raises
    ------
    SettingError
        If the run does not have the steps.
    """
    from rlpanel.analysis.reward_parts import reward_anatomy

    rows, shown = rows_of(run, steps)
    found = reward_anatomy(run.view, rows, by_step=by == "step")
    values = [
        {
            "step": part.step,
            "part": part.name,
            "mean": part.mean,
            "weight": part.weight,
            "source": part.source or None,
            "contribution": part.contribution,
            "share": part.share,
            "samples": part.samples,
            "missing": part.missing,
            "correlations": part.correlations,
            "reasons": part.reasons,
        }
        for part in found.parts
    ]
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "steps": shown,
        "samples": found.samples,
        "without_reward": found.without_reward,
        "groups": found.groups,
        "alone": found.alone,
        "equal": found.equal,
        "exact": found.exact,
        "remarks": list(found.remarks),
    }
    return reward_parts.table(values, about=about)


@question(
    description="Features of responses that the reward pays for beyond a held-out score, the largest first.",
    columns=(
        TableColumn("kind", "text", "word, words, opening, tool or behaviour."),
        TableColumn("feature", "text", "The text, the tool or the behaviour."),
        TableColumn("samples", "integer", "Samples with it."),
        TableColumn("prompts", "integer", "Prompts whose samples differ in it."),
        TableColumn(
            "excess",
            "number",
            "Reward within groups beyond the held-out score for samples with it.",
            "reward",
        ),
        TableColumn("error", "number", "Standard error of the excess, clustered by prompt.", "reward"),
        TableColumn("z", "number", "Excess in standard errors, as a normal deviate."),
        TableColumn("share", "number", "Share of the reward's variance within groups that it explains."),
        TableColumn("reward_gap", "number", "Mean reward of samples with it minus others of the group."),
        TableColumn("held_out_gap", "number", "The same of the held-out score; null without one."),
        TableColumn("filter", "text", "Filter expression for its samples; empty if there is none."),
        TableColumn(
            "uids", "texts", "Its samples, the highest reward beyond the held-out score first.", most=3
        ),
        TableColumn("link", "text", "Address of its samples on a board at the usual port."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("steps", "text", "The steps, such as 10..20; null for all."),
        TableColumn("held_out", "text", "The held-out score: a column, or match; null without one."),
        TableColumn("rule", "text", "The rule that read the answers; null unless held_out is match."),
        TableColumn("samples", "integer", "Samples with a finite reward."),
        TableColumn("samples_read", "integer", "Samples whose responses were read, in whole groups."),
        TableColumn("alone", "integer", "Samples that are alone in their group, which are left out."),
        TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
        TableColumn("unscored", "integer", "Samples that were read but have no held-out score."),
        TableColumn("tried", "integer", "Features that were tested."),
        TableColumn("least_z", "number", "Least z of a named feature, corrected for the number of tests."),
        REMARKS,
    ),
    relation_options={"limit": None},
    example="rlpanel reward-pays runs/exp1 --steps 40..60",
    agents="Name phrases, tool calls and behaviours that the reward pays for beyond the held-out score: "
    "candidates of a reward hack, each with samples.",
)
def reward_pays(
    run: RunData, *, steps: Steps = None, held_out: HeldOut = "", texts: MostTexts = 4000, limit: Limit = 20
) -> Table:
    """Return the features of responses that the reward pays for beyond a held-out score.

    The lines of some groups are read. A feature is a candidate of a reward hack: read its samples.

    Parameters
    ----------
    run : RunData
    steps : int, slice or str, optional
        A step, or steps; all by default.
    held_out : str
        A number column, or ``match`` for the match of answer and ground truth; by default ``valid_reward``
        if it is logged, else the match.
    texts : int
        Maximum number of responses to read.
    limit : int, optional
        Maximum number of features.

    Raises
    ------
    SettingError
        If the run does not have the steps or the column.
    """
    from rlpanel.analysis.paid_features import paid_features

    rows, shown = rows_of(run, steps)
    *_, found = paid_features(run.index, run.view, rows, held_out=held_out, most=texts)
    values = [
        {
            "kind": each.kind,
            "feature": each.name,
            "samples": each.samples,
            "prompts": each.prompts,
            "excess": each.excess,
            "error": each.error,
            "z": each.z,
            "share": each.share,
            "reward_gap": each.reward_gap,
            "held_out_gap": each.held_gap,
            "filter": each.where,
            "uids": list(each.uids),
            "link": _link(run, each.where, each.uids),
        }
        for each in page(found.features, 0, limit)
    ]
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "steps": shown,
        "held_out": found.held_out or None,
        "rule": found.rule or None,
        "samples": found.samples,
        "samples_read": found.read,
        "alone": found.alone,
        "unreadable": found.unreadable,
        "unscored": found.unscored,
        "tried": found.tried,
        "least_z": found.least_z if found.tried else None,
        "remarks": list(found.remarks),
    }
    return reward_pays.table(values, total=len(found.features), about=about)


def _link(run: RunData, where: str, uids: tuple[str, ...]) -> str:
    """Return the board's address of the feature's samples; of one of them if there is no filter."""
    from rlpanel.board_url import board_link

    if where:
        return board_link(run.name, filter=where, sort="-reward", split=run.snapshot.split)
    return board_link(run.name, sample=uids[0] if uids else "", split=run.snapshot.split)


def rows_of(run: RunData, steps: int | slice | str | None) -> tuple[np.ndarray, str | None]:
    """Return the rows of some steps, ascending, and the steps as a text; None for all.

    Raises
    ------
    SettingError
        If the steps are none of the run, or no steps at all.
    """
    import numpy as np

    from rlpanel.errors import SettingError
    from rlpanel.queries.step_ranges import span_of

    rows = np.sort(run.snapshot.alive_rows)
    if steps is None or steps == "":
        return rows, None
    first, last = span_of(steps)
    at = run.snapshot.metadata("step")[rows]
    inside = np.ones(len(rows), bool)
    if first is not None:
        inside &= at >= first
    if last is not None:
        inside &= at <= last
    shown = f"{'' if first is None else first}..{'' if last is None else last}"
    if not inside.any():
        raise SettingError(f"the run has no sample at the steps {shown}")
    return rows[inside], str(first) if first == last else shown
