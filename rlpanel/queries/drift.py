"""The questions for the gap between trainer and engine: its places and cause, and what corrections do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

if TYPE_CHECKING:
    from rlpanel.drift.corrections import Corrected, RunCorrection
    from rlpanel.drift.gap_tokens import GapTokens

Samples = Annotated[int, Option("Number of samples to read, spread over the run.")]
Name = Annotated[str, Option("Only this correction, or logged.", chars=40)]
Low = Annotated[float | None, Option("Lower bound of the ratio.", shown_default="that of the correction")]
High = Annotated[float | None, Option("Upper bound of the ratio.", shown_default="that of the correction")]

_ADVICE = TableColumn("advice", "text", "What to log where there are no rows; empty otherwise.")
_READ = (
    TableColumn("samples_read", "integer", "Number of samples that were read."),
    TableColumn("samples", "integer", "Number of samples of the run."),
    TableColumn("tokens", "integer", "Number of tokens with a logprob of both sides."),
    TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
    TableColumn("without", "integer", "Samples that were read but lack one of the two arrays."),
    TableColumn("unequal", "integer", "Samples whose two arrays differ in length."),
    TableColumn("unscored", "integer", "Tokens without a finite logprob on one side."),
)


@question(
    description="The gap between the logprobs of trainer and engine, by step, place, position and age.",
    columns=(
        TableColumn("dimension", "text", "Such as step, rank, turn, age of the weights or entropy."),
        TableColumn("value", "text", "Value of the dimension."),
        TableColumn("tokens", "integer", "Number of tokens."),
        TableColumn("samples", "integer", "Number of samples."),
        TableColumn("mean", "number", "Mean of the absolute gap; larger ones count as 3.", "nats"),
        TableColumn("median", "number", "Median of the absolute gap.", "nats"),
        TableColumn("signed", "number", "Mean of the trainer's minus the engine's logprob.", "nats"),
        TableColumn("relative", "number", "Mean gap relative to that of tokens that are as likely."),
        TableColumn("error", "number", "Standard error of the relative gap, by samples."),
        TableColumn("share", "number", "Share of these tokens in the sum of absolute gaps."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("cause", "text", "Title of the cause; null if the data do not show one."),
        TableColumn("sentence", "text", "The verdict."),
        TableColumn("advice", "text", "What to do, or the experiment that shows the cause."),
        TableColumn("causes", "objects", "All causes that fit, with their shares and sentences."),
        TableColumn("unchecked", "texts", "Tests that need a field that is not logged."),
        TableColumn("carried", "object", "Share of the gap that the largest 1, 10 and 100 tokens carry."),
        *_READ,
    ),
    has_relation=False,  # it reads the lines of the run
    example="rlpanel drift runs/exp1",
    agents="Name the cause of the gap between the logprobs of trainer and engine, and show where the gap is.",
)
def drift(run: RunData, *, samples: Samples = 768) -> Table:
    """Return the gap between trainer and engine by dimension, and the cause that the data show.

    The lines of some samples are read.

    Parameters
    ----------
    run : RunData
    samples : int
        Number of samples to read, spread over the run.
    """
    from rlpanel.drift.gap_cause_kinds import CAUSES
    from rlpanel.drift.gap_causes import verdict
    from rlpanel.drift.gap_levels import carried, gap_levels

    tokens = _tokens(run, samples)
    found = verdict(tokens)
    trained = tokens.only(tokens.trained)
    rows = [vars(level) for level in gap_levels(tokens)]
    about = {
        "cause": CAUSES[found.cause].title if found.cause else None,
        "sentence": found.sentence,
        "advice": found.advice,
        "causes": [
            {"cause": each.title, "share": each.share, "sentence": each.sentence} for each in found.causes
        ],
        "unchecked": list(found.unchecked),
        "carried": {str(count): share for count, share in carried(trained).items()} or None,
    }
    return drift.table(rows, total=len(rows), offset=0, about=_about(run, tokens) | about)


@question(
    description="What corrections for the gap between trainer and engine do, and what the trainer logged.",
    columns=(
        TableColumn("correction", "text", "Name of the correction."),
        TableColumn("title", "text", "What it does."),
        TableColumn("low", "number", "Lower bound of the ratio."),
        TableColumn("high", "number", "Upper bound of the ratio."),
        TableColumn("changed", "number", "Share of the tokens whose ratio lies outside of the bounds."),
        TableColumn("kept", "number", "Share of the tokens with a weight above 0."),
        TableColumn("effective", "number", "Effective sample size of the weights, as a share of the tokens."),
        TableColumn("mean_weight", "number", "Mean weight of a token."),
        TableColumn("samples_changed", "number", "Share of the samples in the loss with a changed token."),
        TableColumn("reward_changed", "number", "Mean reward of these samples."),
        TableColumn("reward_others", "number", "Mean reward of the other samples."),
        TableColumn("most", "texts", "Tokens that are changed most often."),
        TableColumn("agrees", "number", "Share of the tokens masked by this or by the log that both mask."),
        TableColumn("settings", "text", "Settings of the run that name this correction and its bounds."),
    ),
    about=(
        RUN,
        SPLIT,
        _ADVICE,
        *_READ,
        TableColumn("not_recomputed", "texts", "Settings of the run that name a correction of another kind."),
    ),
    has_relation=False,  # it reads the lines of the run
    example="rlpanel corrections runs/exp1 --name icepop --high 3",
    agents="Recompute the weights of TIS, MIS, IcePop, GSPO and others per token: what they mask or cut.",
)
def corrections(
    run: RunData, *, name: Name = "", low: Low = None, high: High = None, samples: Samples = 768
) -> Table:
    """Return what each correction for the gap between trainer and engine does to the trained tokens.

    The lines of some samples are read. If the trainer logs ``is_masked`` or ``correction_weights``, the first
    row is ``logged``: what its own correction did. Corrections that the run's configuration files name have
    the bounds of these, the others the usual ones.

    Parameters
    ----------
    run : RunData
    name : str
        Only this correction; all by default.
    low, high : float, optional
        Bounds of the ratio.
    samples : int
        Number of samples to read, spread over the run.

    Raises
    ------
    SettingError
        If there is no such correction, or the bounds are not in order.
    """
    from rlpanel.drift.corrections import CORRECTIONS, LOGGED, logged_correction, own_corrections

    tokens, found = _tokens(run, samples), own_corrections(run.index)
    own = {each.name: each for each in found if each.name}
    trained = tokens.only(tokens.trained)
    logged = logged_correction(trained)
    names = [name] if name else [*([LOGGED] if logged else []), *CORRECTIONS]
    rows = [
        _corrected(trained, logged, each, *_bounds(own.get(each), low, high))
        | {"settings": own[each].settings if each in own else None}
        for each in (names if len(trained.trainer) else [])
    ]
    about = {
        "advice": _to_log(tokens, trained),
        "not_recomputed": [each.settings for each in found if not each.name],
    }
    return corrections.table(rows, total=len(rows), offset=0, about=_about(run, tokens) | about)


def _bounds(
    own: RunCorrection | None, low: float | None, high: float | None
) -> tuple[float | None, float | None]:
    """Return the bounds of a correction: those that are given, else the run's own, else none."""
    if own is None:
        return low, high
    return own.low if low is None else low, own.high if high is None else high


def _result(
    tokens: GapTokens, logged: Corrected | None, name: str, low: float | None, high: float | None
) -> Corrected:
    """Return what a correction, or the logged one, does; SettingError if nothing is logged."""
    from rlpanel.drift.corrections import LOGGED, corrected
    from rlpanel.errors import SettingError

    if name != LOGGED:
        return corrected(tokens, name, low, high)
    if logged is None:
        raise SettingError("the run logs no correction: log is_masked, or correction_weights, for each token")
    return logged


def _corrected(
    tokens: GapTokens, logged: Corrected | None, name: str, low: float | None, high: float | None
) -> dict[str, object]:
    import numpy as np

    from rlpanel.drift.corrections import CORRECTIONS, LOGGED_TITLE

    result = _result(tokens, logged, name, low, high)
    rule = CORRECTIONS.get(name)
    agrees = result.agreement(logged) if rule else None
    # Samples without a trained token are not in the loss, whatever is taken away.
    in_loss = np.bincount(tokens.sample, minlength=len(tokens.rows)) > 0
    inside = np.bincount(tokens.sample, result.changed, len(tokens.rows))[in_loss] > 0
    reward = tokens.rewards[in_loss] if np.isfinite(tokens.rewards).any() else None
    count = np.bincount(tokens.token[result.changed & (tokens.token >= 0)], minlength=len(tokens.tokens))
    most = [tokens.tokens[at] for at in np.argsort(-count, kind="stable")[:8].tolist() if count[at]]
    return {
        "correction": name,
        "title": rule.title if rule else LOGGED_TITLE,
        "low": (rule.low if low is None else low) if rule else None,
        "high": (rule.high if high is None else high) if rule else None,
        "changed": float(result.changed.mean()) if len(result.changed) else None,
        "kept": result.kept,
        "effective": result.effective,
        "mean_weight": float(result.weight.mean()) if len(result.weight) else None,
        "samples_changed": float(inside.mean()) if len(inside) else None,
        "reward_changed": None if reward is None or not inside.any() else float(np.nanmean(reward[inside])),
        "reward_others": None if reward is None or inside.all() else float(np.nanmean(reward[~inside])),
        "most": most,
        "agrees": agrees,
    }


@question(
    description="What a correction for the gap between trainer and engine takes away: texts, turns, rewards.",
    columns=(
        TableColumn("dimension", "text", "token, text, reward, turn, position, token class or step."),
        TableColumn("value", "text", "Value of the dimension; a text is of tokens in a row."),
        TableColumn("tokens", "integer", "Number of trained tokens."),
        TableColumn("changed", "integer", "Number of those that are masked, or whose weight is cut."),
        TableColumn("samples", "integer", "Number of samples with such a token."),
        TableColumn("part", "number", "Share of the tokens that is changed."),
        TableColumn("share", "number", "Share of these in all changed tokens."),
        TableColumn("weight", "number", "Mean weight of the tokens."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("correction", "text", "Name of the correction."),
        TableColumn("changed", "number", "Share of all trained tokens that is changed."),
        TableColumn("effective", "number", "Effective sample size of the weights, as a share of the tokens."),
        _ADVICE,
        *_READ,
    ),
    has_relation=False,  # it reads the lines of the run
    example="rlpanel taken-away runs/exp1 --name icepop",
    agents="Show which texts, turns and rewards a correction for the engine takes out of the loss.",
)
def taken_away(
    run: RunData, *, name: Name = "", low: Low = None, high: High = None, samples: Samples = 768
) -> Table:
    """Return the tokens that a correction masks or cuts, by text, turn, reward, position and step.

    The lines of some samples are read.

    Parameters
    ----------
    run : RunData
    name : str
        A correction of `corrections`, or ``logged`` for what the trainer logged; by default ``logged`` if it
        logs a mask or weights, else the one that the run's configuration names, else ``tis``.
    low, high : float, optional
        Bounds of the ratio.
    samples : int
        Number of samples to read, spread over the run.

    Raises
    ------
    SettingError
        If there is no such correction, or the bounds are not in order.
    """
    from rlpanel.drift.corrections import LOGGED, logged_correction, own_corrections
    from rlpanel.drift.taken_away import taken_away as taken_levels

    tokens = _tokens(run, samples)
    trained = tokens.only(tokens.trained)
    logged = logged_correction(trained)
    own = {each.name: each for each in own_corrections(run.index) if each.name}
    name = name or (LOGGED if logged else next(iter(own), "tis"))
    result = _result(trained, logged, name, *_bounds(own.get(name), low, high))
    rows = [vars(each) for each in taken_levels(trained, result)]
    about = {
        "correction": name,
        "changed": float(result.changed.mean()) if len(result.changed) else None,
        "effective": result.effective,
        "advice": _to_log(tokens, trained),
    }
    return taken_away.table(rows, total=len(rows), offset=0, about=_about(run, tokens) | about)


@question(
    description="Load of each expert of a mixture-of-experts model, and layers where the engine differs.",
    columns=(
        TableColumn("layer", "integer", "Layer, from 0."),
        TableColumn("expert", "integer", "Expert, from 0."),
        TableColumn("tokens", "integer", "Number of tokens that it got."),
        TableColumn("load", "number", "This relative to the mean of the layer's experts; 1 is even."),
        TableColumn("engine_load", "number", "The same for the engine, where both sides are logged."),
        TableColumn("mismatch", "number", "Share of the layer's tokens with another set of experts."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("layers", "integer", "Number of layers."),
        TableColumn("mismatch", "number", "Share of tokens and layers with another set of experts."),
        TableColumn("samples_read", "integer", "Number of samples that were read."),
        TableColumn("without", "integer", "Samples that log no experts; log experts or rollout_experts."),
        TableColumn("unlike", "integer", "Samples with another number of layers than those before."),
        TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
        _ADVICE,
    ),
    has_relation=False,  # it reads the lines of the run
    example="rlpanel experts runs/exp1",
    agents="Show the load by expert of a mixture-of-experts policy, and where engine and trainer differ.",
)
def experts(run: RunData, *, samples: Samples = 768) -> Table:
    """Return the load of each expert, from the experts' ids that the run logs by token.

    The lines of some samples are read.

    Parameters
    ----------
    run : RunData
    samples : int
        Number of samples to read, spread over the run.
    """
    from rlpanel.drift.expert_load import load_levels

    tokens = _tokens(run, samples)
    load = tokens.experts
    rows = [vars(level) for level in load_levels(load)]
    compared = int(load.compared.sum())
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "layers": load.layers,
        "mismatch": float(load.differs.sum() / compared) if compared else None,
        "samples_read": tokens.read,
        "without": load.without,
        "unlike": load.unlike,
        "unreadable": tokens.unreadable,
        "advice": "" if rows else "Log experts or rollout_experts: the experts' ids of each token and layer.",
    }
    return experts.table(rows, total=len(rows), offset=0, about=about)


def _tokens(run: RunData, samples: int) -> GapTokens:
    from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens

    *_, last = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot, samples))
    assert isinstance(last, GapTokens)
    return last


def _to_log(tokens: GapTokens, trained: GapTokens) -> str:
    """Return what to log, if there are no trained tokens with the logprobs of both sides."""
    from rlpanel.drift.gap_causes import verdict

    return "" if len(trained.trainer) else verdict(tokens).advice


def _about(run: RunData, tokens: GapTokens) -> dict[str, object]:
    return {
        "run": run.name,
        "split": run.snapshot.split,
        "samples_read": tokens.read,
        "samples": tokens.total,
        "tokens": len(tokens.trainer),
        "unreadable": tokens.unreadable,
        "without": tokens.without,
        "unequal": tokens.unequal,
        "unscored": tokens.unscored,
    }
