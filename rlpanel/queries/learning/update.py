"""The questions for an update: the tokens that carry its gradient, and what other losses make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import OneStepOrMore, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

if TYPE_CHECKING:
    from rlpanel.update.run_algorithm import OwnLoss
    from rlpanel.update.update_anatomy import WeightRow
    from rlpanel.update.update_batch import UpdateBatch

Named = Annotated[
    str,
    Option(
        "The run's own algorithm, such as grpo.", shown_default="from run.json or the advantages", chars=40
    ),
]
Rows = Annotated[
    int | None,
    Option(
        "Most rows of a dimension without an order, such as samples; 0 for all.",
        min=0, max=10_000, tool_default=8, none=0,
    ),
]  # fmt: skip
Dimension = Annotated[str, Option("Only this dimension, such as turn or sample.", chars=200)]
Following = Annotated[
    int,
    Option(
        "Next steps in which the phrases are counted; 0 for none.", min=0, max=100, flag="--next",
    ),
]  # fmt: skip
Algorithms = Annotated[
    Sequence[str] | None,
    Option(
        "Algorithms, separated by commas; own is the run's with other constants.",
        "Algorithms such as dr_grpo; own is the run's with other constants.",
        shown_default="all", chars=40, flag="--algorithm",
    ),
]  # fmt: skip
_USUAL = {"shown_default": "that of the algorithm"}
Number = Annotated[float | None, Option("Clip range below 1.", **_USUAL)]
High = Annotated[float | None, Option("Clip range above 1; that below 1 by default.", **_USUAL)]
Beta = Annotated[float | None, Option("Weight of the KL term.", **_USUAL)]
Estimator = Annotated[str, Option("Estimator of the KL term: k1, k2 or k3.", chars=10, **_USUAL)]
Averaging = Annotated[
    str,
    Option(
        "token-mean, seq-mean-token-mean, seq-mean-token-sum or constant.", chars=40, **_USUAL
    ),
]  # fmt: skip
MaxLength = Annotated[int | None, Option("Longest possible response of the averaging constant.", min=1)]
Correction = Annotated[str, Option("Correction for the engine, such as tis or icepop.", chars=40)]
Cap = Annotated[float | None, Option("Upper bound of the correction's ratio.")]
Weights = Annotated[str, Option("Weights of parts of the reward, such as format=0.5,score=1.", chars=2000)]
PassRange = Annotated[
    str,
    Option("Only groups whose mean reward lies in this range, such as 0.1..0.9.", chars=50, flag="--groups"),
]
Flat = Annotated[bool | None, Option("Leave out groups of equal rewards.", flag="--drop-flat/--keep-flat")]
Overlong = Annotated[
    bool | None, Option("Leave out truncated samples.", flag="--drop-truncated/--keep-truncated")
]
Label = Annotated[str, Option("Label by whose values the weight is summed.", chars=200, flag="--by")]

_ABOUT = (
    RUN,
    SPLIT,
    TableColumn("step", "text", "The steps, such as 43..47; null if the run has no complete step."),
    TableColumn("algorithm", "text", "The run's own algorithm; null if it is not known."),
    TableColumn("algorithm_found", "text", "How it was found, or what to do if it was not."),
    TableColumn("assumed", "texts", "What is not logged about it and has its usual value."),
    TableColumn("formula", "text", "Its loss with its constants."),
    TableColumn("source", "text", "Paper and functions of trainers."),
    TableColumn("approximated", "texts", "What is not exact in the numbers."),
    TableColumn("remark", "text", "What is assumed and what is not exact, in one text."),
    TableColumn("missing", "texts", "Fields that are not logged and would add to the answer."),
    TableColumn("samples_read", "integer", "Number of samples that were read."),
    TableColumn("samples", "integer", "Number of samples of the steps."),
    TableColumn("tokens", "integer", "Number of tokens that were read."),
    TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
    TableColumn("without_tokens", "integer", "Samples without tokens, arrays and text; they do not count."),
    TableColumn(
        "unequal", "integer", "Arrays that are not as long as the sample's tokens; they do not count."
    ),
)


@question(
    description="The weight of tokens in a step's gradient, by turn, token, position, sample and group.",
    columns=(
        TableColumn("dimension", "text", "Such as turn, position, sample, group, token or a label's name."),
        TableColumn("value", "text", "Value of the dimension; of a sample its uid."),
        TableColumn("share", "number", "Share in the sum of the absolute pushes of all tokens."),
        TableColumn("push", "number", "Signed share: above 0, the update makes these tokens likelier."),
        TableColumn("tokens", "integer", "Number of tokens in the loss."),
        TableColumn("samples", "integer", "Number of samples with such tokens."),
        TableColumn("change", "number", "Mean of the new minus the old logprob of these tokens.", "nats"),
        TableColumn("frequency", "number", "With --next: share of the responses with a phrase."),
        TableColumn("following", "number", "The same in the next steps, the mean of these."),
        TableColumn("reward", "number", "Reward of a sample, or mean reward of a group."),
        TableColumn("advantage", "number", "Advantage of a sample."),
        TableColumn("step", "integer", "Step of a sample or group."),
        TableColumn("uid", "text", "A sample: the row's own, or the heaviest one of a group or prompt."),
    ),
    about=(
        *_ABOUT,
        TableColumn("effective", "number", "Effective number of samples: (Σ weight)² ÷ Σ weight² (Kish)."),
        TableColumn("weighted", "integer", "Number of samples with a weight above 0."),
        TableColumn("half", "integer", "Number of samples that carry half of the weight."),
        TableColumn("half_samples", "texts", "Uids of the samples that carry half of it.", most=5),
        TableColumn("clipped", "number", "Share of the tokens in the loss that clipping takes out or caps."),
        TableColumn("masked", "number", "Share of the tokens that are not in the loss."),
        TableColumn("flat", "number", "Share of the samples in groups of equal rewards."),
        TableColumn(
            "cancelled",
            "number",
            "Share of the weight that pushes a token's text up and down within one group, in equal parts.",
        ),
        TableColumn("up", "number", "Share of the weight that makes tokens likelier."),
        TableColumn("alone", "integer", "Samples that are alone in their group."),
        TableColumn(
            "without_advantage", "integer", "Samples without an advantage, such as by a late reward."
        ),
        TableColumn(
            "phrase_samples", "integer", "Samples that were searched for phrases: the heaviest ones."
        ),
        TableColumn("values", "object", "Number of values by dimension, of which the table may have fewer."),
        TableColumn("next_steps", "numbers", "The next steps in which phrases were counted."),
        TableColumn(
            "agreement",
            "number",
            "Rank correlation of push and change of frequency over the phrases; a correlation, no proof.",
        ),
    ),
    relation=(
        *("dimension", "value", "share", "push", "tokens", "samples", "change", "reward", "advantage"),
        *("step", "uid"),
    ),
    relation_options={"limit": None},
    example="rlpanel update runs/exp1 --step 20",
    agents="Show which tokens, turns, samples, groups and reward parts carried a step's gradient.",
)
def update(
    run: RunData,
    step: OneStepOrMore = None,
    *,
    algorithm: Named = "",
    dimension: Dimension = "",
    limit: Rows = 12,
    following: Following = 0,
) -> Table:
    """Return the weight of tokens in the gradient of a step, by dimension.

    The lines of the steps are read.

    Parameters
    ----------
    run : RunData
    step : int or (int, int), optional
        A step, or the first and the last one; by default the newest complete step.
    algorithm : str
        The run's own algorithm; by default the one that ``run.json`` names, or that the advantages follow.
    dimension : str
        Only this dimension; all by default.
    limit : int, optional
        Most rows of a dimension without an order, such as samples; None for all.
    following : int
        Number of next steps in which the listed phrases are counted.

    Raises
    ------
    SettingError
        If the run does not have the steps or the algorithm.
    """
    import numpy as np

    from rlpanel.update.phrase_weights import next_steps
    from rlpanel.update.token_gradient import PreparedLoss
    from rlpanel.update.update_anatomy import anatomy

    found = _read(run, step, algorithm)
    if found is None:
        return update.table([], about=_unread(run))
    batch, own, about = found
    if own.algorithm is None or (needs := _needs(batch, own)):
        more = [] if own.algorithm is None else [f"The update needs {needs}."]
        return update.table([], about=_noted(about | {"approximated": [*about["approximated"], *more]}))
    result = anatomy(batch, PreparedLoss(batch, own.algorithm), None)
    counts: dict[str, int] = {}
    rows = []
    for row in result.rows:
        counts[row.dimension] = counts.get(row.dimension, 0) + 1
        if (limit is None or counts[row.dimension] <= limit or row.dimension in _ORDERED) and (
            not dimension or row.dimension == dimension
        ):
            rows.append(row)
    if dimension and dimension not in counts:
        raise SettingError(f"there is no dimension {dimension[:80]!r}; known are {', '.join(counts)[:400]}")
    weight, net = float(result.totals.weight.sum()), result.totals.total
    uids = run.snapshot.uids(batch.rows[result.half])
    about |= {
        "effective": result.totals.effective,
        "weighted": int((result.totals.weight > 0).sum()),
        "half": len(result.half),
        "half_samples": list(uids),
        "up": (weight + net) / (2 * weight) if weight else None,
        "values": counts,
    }
    names = ("clipped", "masked", "flat", "cancelled", "alone", "without_advantage", "phrase_samples")
    about |= {name: getattr(result, name) for name in names}
    about["clipped"] = result.clipped if batch.has_ratio else None
    heaviest = _Heaviest(run, batch, result.totals.weight, result.advantage)
    found_rows = [heaviest.row(each) for each in rows]
    phrases = [each for each in found_rows if each["dimension"] == "phrase"]
    if following and phrases:
        *_, later = next_steps(
            run.index, run.view, batch.rows, [each["value"] for each in phrases], following
        )
        for each, now, after in zip(phrases, later.now.tolist(), later.following.tolist(), strict=True):
            each |= {"frequency": now, "following": after}
        pushes = np.array([each["push"] for each in phrases])
        about |= {"next_steps": list(later.steps), "agreement": later.agreement(pushes)}
    return update.table(found_rows, about=_noted(about))


#: Dimensions that are shown whole, in their order.
_ORDERED = frozenset({"turn", "position", "length", "token class", "reward part"})


class _Heaviest:
    """Makes rows, with what is known of samples and of the heaviest one of groups and prompts."""

    def __init__(self, run: RunData, batch: UpdateBatch, weight: Any, advantage: Any) -> None:
        import numpy as np

        self._run, self._batch, self._advantage = run, batch, advantage
        order = np.argsort(weight, kind="stable")
        # Of equal keys the last one stays.
        self._of = {
            "group": dict(zip(batch.group[order].tolist(), order.tolist(), strict=True)),
            "prompt": dict(zip(batch.prompts[order].tolist(), order.tolist(), strict=True)),
        }

    def row(self, row: WeightRow) -> dict[str, Any]:
        found = {name: getattr(row, name) for name in ("dimension", "value", "share", "push", "tokens")}
        found |= {"samples": row.samples, "change": row.change}
        at = row.at if row.dimension == "sample" else self._of.get(row.dimension, {}).get(row.at)
        if at is None:
            return found
        snapshot, batch = self._run.snapshot, self._batch
        uid = snapshot.uid(int(batch.rows[at]))
        found |= {"uid": uid, "step": int(batch.steps[at])}
        if row.dimension == "sample":
            advantage = float(self._advantage[at])
            return found | {"value": uid, "reward": float(batch.reward[at]), "advantage": advantage}
        members = batch.group == row.at if row.dimension == "group" else batch.prompts == row.at
        rewards = batch.reward[members & batch.outcome]
        rewards = rewards[abs(rewards) < math.inf]  # those that the weights count
        return found | {
            "value": self._name(row, int(batch.rows[at])),
            "reward": float(rewards.mean()) if len(rewards) else None,
        }

    def _name(self, row: WeightRow, at: int) -> str:
        """Return the logged id of a group, else its number."""
        import numpy as np

        snapshot = self._run.snapshot
        if row.dimension == "group" and "group" in snapshot.labels:
            return snapshot.label("group", np.array([at]))[0] or row.value
        return row.value


@question(
    description="The run's own loss and others on the samples of a step, side by side.",
    columns=(
        TableColumn("algorithm", "text", "Name of the algorithm."),
        TableColumn("title", "text", "Its title."),
        TableColumn("own", "boolean", "Whether it is the run's own, unchanged."),
        TableColumn("effective", "number", "Effective number of samples: (Σ weight)² ÷ Σ weight² (Kish)."),
        TableColumn("weighted", "integer", "Number of samples with a weight above 0."),
        TableColumn("half", "integer", "Number of samples that carry half of the weight."),
        TableColumn("clipped", "number", "Share of the tokens in the loss that clipping takes out or caps."),
        TableColumn(
            "correlation", "number", "Correlation of the tokens' pushes with those of the run's own."
        ),
        TableColumn("changed", "integer", "Samples that are pushed the other way than by the run's own."),
        TableColumn("gained", "integer", "Samples that have weight here and none by the run's own."),
        TableColumn("lost", "integer", "Samples that have weight by the run's own and none here."),
        TableColumn("samples", "integer", "Number of samples that its filters keep."),
        TableColumn("mean", "number", "Mean of the advantages of these samples."),
        TableColumn("std", "number", "Standard deviation of the advantages of these samples."),
        TableColumn("mass", "object", "Share of the weight by category."),
        TableColumn(
            "needs", "text", "Fields that it needs and the run does not log; empty if there are none."
        ),
        TableColumn("approximated", "texts", "What is not exact in these numbers."),
        TableColumn("formula", "text", "The loss with its constants."),
        TableColumn("source", "text", "Paper and functions of trainers."),
    ),
    about=(
        *_ABOUT,
        TableColumn("by", "text", "Label by whose values mass is summed."),
        TableColumn("labels", "texts", "Labels that can be it."),
    ),
    example="rlpanel what-if runs/exp1 --algorithm dr_grpo --step 20",
    agents="Compute what GRPO, Dr. GRPO, RLOO, GSPO, CISPO, DAPO, TIS and others do with a step's samples.",
)
def what_if(
    run: RunData,
    algorithm: Algorithms = None,
    step: OneStepOrMore = None,
    *,
    own: Named = "",
    epsilon: Number = None,
    epsilon_high: High = None,
    beta: Beta = None,
    estimator: Estimator = "",
    averaging: Averaging = "",
    max_length: MaxLength = None,
    correction: Correction = "",
    cap: Cap = None,
    reward_weights: Weights = "",
    groups: PassRange = "",
    drop_flat: Flat = None,
    drop_truncated: Overlong = None,
    by: Label = "length",
) -> Table:
    """Return what other losses make of the samples of a step, beside the run's own.

    The lines of the steps are read.

    Parameters
    ----------
    run : RunData
    algorithm : sequence of str, optional
        Algorithms such as ``dr_grpo``; ``own`` is the run's with other constants. All by default.
    step : int or (int, int), optional
        A step, or the first and the last one; by default the newest complete step.
    own : str
        The run's own algorithm; by default the one that ``run.json`` names, or that the advantages follow.
    epsilon, epsilon_high : float, optional
        Clip range below and above 1.
    beta : float, optional
        Weight of the KL term.
    estimator : str
        Estimator of the KL term: ``k1``, ``k2`` or ``k3``.
    averaging : str
        How the loss averages, such as ``token-mean``.
    max_length : int, optional
        Longest possible response of the averaging ``constant``.
    correction : str
        Correction for the engine, such as ``tis``.
    cap : float, optional
        Upper bound of the correction's ratio.
    reward_weights : str
        Weights of parts of the reward, such as ``format=0.5,score=1``; others keep theirs.
    groups : str
        Only groups whose mean reward lies in this range, such as ``0.1..0.9``.
    drop_flat, drop_truncated : bool, optional
        Whether groups of equal rewards, and truncated samples, are left out.
    by : str
        Label by whose values the weight is summed.

    Raises
    ------
    SettingError
        If the run does not have the steps, there is no such algorithm, or a constant is out of range.
    """
    from rlpanel.update.compare_losses import chosen_losses, compare_losses, weighted_rewards
    from rlpanel.update.other_rewards import parsed_range, parsed_weights

    found = _read(run, step, own)
    if found is None:
        return what_if.table([], about=_unread(run))
    batch, own_loss, about = found
    weights, pass_range = parsed_weights(reward_weights), parsed_range(groups)
    rewards, notes = None, list(about["approximated"])
    if weights:
        rewards, apart = weighted_rewards(batch, weights, batch.part_weights)
        if apart:
            notes.append(f"Parts and weights do not add up to the logged reward of {apart:,} samples.")
    constants = {
        "epsilon": epsilon,
        "epsilon_high": epsilon if epsilon_high is None else epsilon_high,
        "beta": beta,
        "estimator": estimator or None,
        "averaging": averaging or None,
        "max_length": max_length,
        "correction": correction or None,
        "cap": cap,
        "drop_flat": drop_flat,
        "drop_truncated": drop_truncated,
    }
    names = [algorithm] if isinstance(algorithm, str) else list(algorithm or ())
    others = chosen_losses(own_loss, names, by_formula=bool(weights), **constants)
    shown = compare_losses(
        batch, own_loss.algorithm, others, label=by, rewards=rewards, pass_range=pass_range
    )
    if all("reward" in outcome.needs.split(", ") for outcome in shown):
        raise SettingError(
            f"no sample of step {about['step']} has a reward that is a number: log one as reward, or name "
            "its key by rlpanel map"
        )
    rows = []
    for outcome in shown:
        loss = outcome.algorithm
        row = {key: value for key, value in vars(outcome).items() if key not in ("algorithm", "is_own")}
        if not batch.has_ratio:
            row["clipped"] = None
        row |= {"algorithm": loss.name, "title": loss.title, "own": outcome.is_own}
        rows.append(row | {"formula": loss.formula, "source": loss.source})
    more = {"by": by, "labels": ["length", *batch.labels], "approximated": notes}
    return what_if.table(rows, about=_noted(about | more))


def _read(
    run: RunData, step: int | tuple[int, int] | None, named: str
) -> tuple[UpdateBatch, OwnLoss, dict[str, Any]] | None:
    """Return the samples of steps, the run's own loss, and facts; None if the run has no complete step."""
    import numpy as np

    from rlpanel.queries.run_columns import step_or_newest
    from rlpanel.queries.step_ranges import in_run, steps_text
    from rlpanel.store.query.query import rows_of_steps
    from rlpanel.update.compare_losses import approximations, missing_fields
    from rlpanel.update.read_batch import read_update_batch
    from rlpanel.update.run_algorithm import own_loss
    from rlpanel.update.update_batch import UpdateBatch

    step = step_or_newest(run.view, None) if step is None else in_run(run.view, step)
    if step is None:
        return None
    rows = rows_of_steps(run.snapshot, step)
    *_, batch = read_update_batch(run.index, run.view, rows)
    assert isinstance(batch, UpdateBatch)
    own = own_loss(run.view, batch, named)
    reading = batch.reading
    loss = own.algorithm
    about: dict[str, Any] = {
        "run": run.name,
        "split": run.snapshot.split,
        "step": steps_text(step),
        "algorithm": loss.name if loss is not None else None,
        "algorithm_found": own.found,
        "assumed": list(own.assumed),
        "formula": loss.formula if loss is not None else None,
        "source": loss.source if loss is not None else None,
        "approximated": list(approximations(batch, loss)) if loss is not None else [],
        "missing": list(missing_fields(batch)),
        "samples_read": reading.read,
        "samples": reading.total,
        "tokens": int(np.sum(batch.counts)),
        "unreadable": reading.unreadable,
        "without_tokens": reading.without_tokens,
        "unequal": reading.unequal,
    }
    return batch, own, about


def _noted(about: dict[str, Any]) -> dict[str, Any]:
    """Return the facts with one text of what is assumed and what is not exact."""
    assumed = [f"Assumed: {text}." for text in about["assumed"]]
    return about | {"remark": " ".join([*assumed, *about["approximated"]])}


def _unread(run: RunData) -> dict[str, Any]:
    return {"run": run.name, "split": run.snapshot.split}


def _needs(batch: UpdateBatch, own: OwnLoss) -> str:
    from rlpanel.update.compare_losses import needs_of

    assert own.algorithm is not None
    return needs_of(batch, own.algorithm)
