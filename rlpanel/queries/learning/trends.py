"""The questions whether a run still improves, and what its policy learned from one visit to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rlpanel.queries.learning.rewards import Steps, rows_of
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, MostTexts, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn, page

Last = Annotated[
    int,
    Option("Number of last steps, which are compared with as many before.", min=4, max=100_000),
]
Curves = Annotated[
    Sequence[str] | None,
    Option(
        "Curves, separated by commas.", "Number columns or step metrics.", chars=200, default="",
        shown_default="the headline curves", complete="step_columns",
    ),
]  # fmt: skip
#: Curves that are tested by default, if the run has them.
HEADLINE = (
    "reward", "valid_reward", "kl_k3_mean", "response_tokens", "truncated", "token_entropy_mean",
    "surprisal_mean", "reward_gap", "var_explained", "value_error",
)  # fmt: skip


@question(
    description="Headline curves: improved, worsened or unclear over the last steps, with errors.",
    columns=(
        TableColumn("curve", "text", "The curve."),
        TableColumn(
            "verdict",
            "text",
            "improved, worsened, unclear or too few steps; rose or fell if neither direction is good.",
        ),
        TableColumn("change", "number", "Mean of the last steps minus that of the steps before."),
        TableColumn(
            "error", "number", "Standard error of the change: the larger one of the two that follow."
        ),
        TableColumn("z", "number", "Change in standard errors, as a normal deviate."),
        TableColumn("value", "number", "Mean of the last steps."),
        TableColumn("before", "number", "Mean of as many steps before."),
        TableColumn("steps", "text", "The last steps."),
        TableColumn("since", "text", "The steps before."),
        TableColumn("error_by_prompts", "number", "Error clustered by prompt; null for a step metric."),
        TableColumn("error_by_steps", "number", "Error by the steps around their trend, with correlation."),
        TableColumn("prompts", "integer", "Clusters of samples; 0 for a step metric."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("last", "integer", "Number of last steps that was asked for."),
        TableColumn("until", "integer", "The newest complete step; null without any."),
        TableColumn("least_z", "number", "Size of z for a verdict, corrected for the number of curves."),
    ),
    relation=("curve", "verdict", "change", "error", "z", "value", "before", "steps", "since", "prompts"),
    example="rlpanel trend runs/exp1 --last 20",
    agents="Say whether the last steps improved or worsened each headline curve, or neither is clear.",
)
def trend(run: RunData, *, last: Last = 20, curves: Curves = None) -> Table:
    """Return whether the last steps improved or worsened each headline curve, or neither is clear.

    The last steps are compared with as many before; in a short run its halves are compared.

    Parameters
    ----------
    run : RunData
    last : int
        Number of last steps.
    curves : sequence of str, optional
        Number columns or step metrics; by default the headline curves that the run has.

    Raises
    ------
    SettingError
        If the run does not have a curve.
    """
    import time

    from rlpanel.analysis.recent_trend import recent_trend
    from rlpanel.errors import SettingError
    from rlpanel.queries.run_columns import similar
    from rlpanel.store.snapshot.snapshot import newest_complete_step

    view = run.view
    chosen = list(curves or [name for name in HEADLINE if view.has(name)])
    for name in chosen:
        if not view.has(name):
            known = [*view.snapshot.numbers, *view.step_metrics]
            raise SettingError(f"the run has no curve {name[:80]!r}{similar(name, known)}")
    until = newest_complete_step(run.snapshot, time.time())
    found = [recent_trend(view, name, last, until=until, tests=len(chosen)) for name in chosen]
    found = found if until is not None else []
    values = [
        {
            "curve": each.curve,
            "verdict": each.verdict,
            "change": each.change,
            "error": each.error,
            "z": each.z,
            "value": each.value,
            "before": each.before,
            "steps": _steps(each.steps, each.verdict),
            "since": _steps(each.since, each.verdict),
            "error_by_prompts": each.by_prompts,
            "error_by_steps": each.by_steps,
            "prompts": each.prompts,
        }
        for each in found
    ]
    least = [each.least_z for each in found if each.least_z == each.least_z]
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "last": last,
        "until": until,
        "least_z": least[0] if least else None,
    }
    return trend.table(values, about=about)


def _steps(bounds: tuple[int, int], verdict: str) -> str | None:
    return None if verdict == "too few steps" else f"{bounds[0]}..{bounds[1]}"


@question(
    description="Tokens and phrases that changed from one visit of a prompt to the next, the clearest first.",
    columns=(
        TableColumn("kind", "text", "token, word or words."),
        TableColumn("name", "text", "The token's text, or the phrase."),
        TableColumn("push", "number", "Mean of advantage times presence: above 0 if the update favoured it."),
        TableColumn(
            "change", "number", "Of a token its logprob in the same context (nats); of a phrase its share."
        ),
        TableColumn("error", "number", "Standard error of the change, clustered by prompt."),
        TableColumn("z", "number", "Change in standard errors, as a normal deviate."),
        TableColumn("now", "number", "Probability of the token, or share of responses, at the visits."),
        TableColumn("next", "number", "The same at the next visits."),
        TableColumn("visits", "integer", "Contexts of a token, or pairs of visits."),
        TableColumn("prompts", "integer", "Prompts with it."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("steps", "text", "The steps, such as 10..20; null for all."),
        TableColumn("samples_read", "integer", "Samples that were read, of prompts that come back."),
        TableColumn("pairs", "integer", "Pairs of consecutive visits of a prompt."),
        TableColumn("prompts", "integer", "Prompts that were visited several times."),
        TableColumn("contexts", "integer", "Contexts in which a token has a logprob at both visits."),
        TableColumn(
            "agreement", "number", "Correlation of push and change over contexts; no proof of a cause."
        ),
        TableColumn("logprobs", "text", "The logprobs that were compared; null without any."),
        TableColumn("tried", "integer", "Tokens and phrases that were tested."),
        TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
        TableColumn("remarks", "texts", "What is approximated or missing, and what to log."),
    ),
    relation_options={"limit": None},
    example="rlpanel learned runs/exp1 --steps 20..40",
    agents="Compare each prompt's next visit: tokens whose logprob changed in the same context, phrases that "
    "became more or less frequent, and the advantage that pushed them.",
)
def learned(run: RunData, *, steps: Steps = None, texts: MostTexts = 4000, limit: Limit = 20) -> Table:
    """Return the tokens and phrases that changed from one visit of a prompt to the next.

    The lines of prompts that come back are read. The change is a correlation with the push: all updates
    between the visits took part in it.

    Parameters
    ----------
    run : RunData
    steps : int, slice or str, optional
        A step, or steps; all by default.
    texts : int
        Maximum number of samples to read.
    limit : int, optional
        Maximum number of rows.

    Raises
    ------
    SettingError
        If the run does not have the steps.
    """
    from rlpanel.analysis.next_visits import learned_tokens

    rows, shown = rows_of(run, steps)
    *_, found = learned_tokens(run.index, run.view, rows, most=texts)
    values = [
        {
            "kind": each.kind,
            "name": each.name,
            "push": each.push,
            "change": each.change,
            "error": each.error,
            "z": each.z,
            "now": each.now,
            "next": each.following,
            "visits": each.visits,
            "prompts": each.prompts,
        }
        for each in page(found.learned, 0, limit)
    ]
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "steps": shown,
        "samples_read": found.read,
        "pairs": found.pairs,
        "prompts": found.prompts,
        "contexts": found.contexts,
        "agreement": found.agreement,
        "logprobs": found.logprobs or None,
        "tried": found.tried,
        "unreadable": found.unreadable,
        "remarks": list(found.remarks),
    }
    return learned.table(values, total=len(found.learned), about=about)
