"""The tables of prompts over training: unsolved ones, rewards that vary, and the cost of each class."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import (
    LeastSteps,
    Limit,
    Offset,
    Option,
    PromptChars,
    PromptKind,
    PromptText,
)
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import BY, PROMPT, RUN, SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.store.snapshot.prompt_classes import PromptCosts


# -- prompt list ---------------------------------------------------------------------------------------
# The tables of prompts over training: those that remain unsolved, and those whose rewards vary most.


@question(
    description="Prompts over all steps: the worst unsolved first, or those whose rewards vary most.",
    columns=(
        TableColumn("prompt_key", "text", "Key of the prompt, as in filters."),
        TableColumn("steps", "integer", "Number of steps that contain the prompt."),
        TableColumn("samples", "integer", "Number of its samples."),
        TableColumn("best", "number", "Highest mean reward at a step.", "reward"),
        TableColumn("last", "number", "Mean reward at its last step.", "reward"),
        TableColumn("target", "number", "Mean reward that no step exceeded, if unsolved.", "reward"),
        TableColumn("spread", "number", "Standard deviation of the reward within steps.", "reward"),
        TableColumn("uid", "text", "Its newest sample."),
        TableColumn("filter", "text", "Filter expression for its samples."),
        PROMPT,
    ),
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("kind", "text", "unsolved or variable."),
        TableColumn("least_steps", "integer", "Prompts at fewer steps are left out."),
    ),
    relation=(
        *("kind", "prompt_key", "steps", "samples", "best", "last", "target", "spread", "uid", "filter"),
    ),
    relation_options={"kind": ""},
    counts=True,
    example="rlpanel prompts runs/exp1 --kind variable --limit 5",
    agents="List prompts that stay unsolved over the steps, or whose rewards vary most within a step.",
)
def prompts(
    run: RunData,
    kind: PromptKind = "unsolved",
    *,
    least_steps: LeastSteps = None,
    limit: Limit = None,
    offset: Offset = 0,
    text: PromptText = False,
    chars: PromptChars = None,
) -> Table:
    """Return the prompts that remain unsolved, or those whose rewards vary most within a step.

    Parameters
    ----------
    run : RunData
    kind : str
        ``unsolved``: no step's mean reward exceeds the reference's or, without one, the prompt's first.
        ``variable``: sorted by the standard deviation of the reward within steps. Empty: first all unsolved
        prompts, then all variable ones; a prompt may be both.
    least_steps : int, optional
        Prompts at fewer steps are left out; by default 3 for unsolved and 1 for variable prompts.
    limit : int, optional
        Maximum number of prompts; all by default.
    offset : int
        Number of prompts to skip.
    text : bool
        Read the texts of the returned prompts.
    chars : int, optional
        Maximum number of characters of each text.

    Raises
    ------
    SettingError
        If there is no such kind.
    """
    from rlpanel.queries.run_columns import counted_by, questions_of
    from rlpanel.store.snapshot.prompts import unsolved_prompts, variable_prompts
    from rlpanel.texts.shorten import TextLimit

    snapshot = run.snapshot
    lists: dict[str, tuple[Callable[..., list[Any]], int]] = {
        "unsolved": (unsolved_prompts, 3), "variable": (variable_prompts, 1)
    }  # fmt: skip
    if kind and kind not in lists:
        raise SettingError(f"no prompts {kind!r}; there are unsolved and variable")
    found: list[tuple[str, Any]] = []
    for name in [kind] if kind else lists:
        listed, usual = lists[name]
        least = usual if least_steps is None else least_steps
        found += [(name, prompt) for prompt in listed(snapshot, least)]
    shown = page(found, offset, limit)
    places = [prompt.row for _, prompt in shown]
    texts = questions_of(run, places, TextLimit(chars)) if text else [None] * len(shown)
    rows = [
        {"kind": name, **_row(run, prompt, each)} for (name, prompt), each in zip(shown, texts, strict=True)
    ]
    facts = {
        "run": run.name,
        "split": snapshot.split,
        "by": counted_by(snapshot),
        "kind": kind or None,
        "least_steps": least if kind else least_steps,
    }
    return prompts.table(rows, total=len(found), offset=offset, about=facts)


def _row(run: RunData, prompt: Any, text: str | None) -> dict[str, Any]:
    from rlpanel.store.query.filter_columns import prompt_key
    from rlpanel.store.query.filter_syntax import quote

    snapshot = run.snapshot
    key = prompt_key(int(snapshot.prompts()[prompt.row]))
    return {
        "prompt_key": key,
        "steps": prompt.steps,
        "samples": prompt.samples,
        "best": prompt.best,
        "last": prompt.last,
        "target": getattr(prompt, "target", None),
        "spread": getattr(prompt, "spread", None),
        "uid": snapshot.uid(prompt.row),
        "filter": f"prompt_key == {quote(key)}",
        "prompt": text,
    }


# -- prompt economics ----------------------------------------------------------------------------------
# The table of prompts by class, with what each cost and the signal that it bought.


Classes = Annotated[
    Sequence[str] | None,
    Option(
        help="Only prompts of this class: learnt, forgotten, flickers, never, always, steady or seldom; "
        "repeat it for several.",
        agents="Only these classes: learnt, forgotten, flickers, never, always, steady, seldom.",
        flag="--class",
        chars=7,
    ),
]


@question(
    description="Prompts by class (learnt, forgotten, flickers, never, always), with cost and signal.",
    columns=(
        TableColumn("prompt_key", "text", "Key of the prompt, as in filters."),
        TableColumn(
            "class",
            "text",
            "learnt, forgotten, flickers, never, always, steady, or seldom: at too few steps.",
        ),
        TableColumn("visits", "integer", "Number of steps with a reward of the prompt."),
        TableColumn("samples", "integer", "Number of samples with a reward; an episode counts once."),
        TableColumn("unrewarded", "integer", "Number of samples without a finite reward."),
        TableColumn("passed", "number", "Share of the samples that pass."),
        TableColumn("first", "number", "Share of samples that pass at the first visit."),
        TableColumn("last", "number", "Share of samples that pass at the last visit."),
        TableColumn(
            "tokens", "number", "Response tokens, with discarded samples; null if not logged.", "tokens"
        ),
        TableColumn(
            "seconds",
            "number",
            "Its part of the seconds of its steps, by tokens; null if not logged.",
            "seconds",
        ),
        TableColumn(
            "gpu_hours", "number", "seconds × gpus of run.json / 3600; null if not logged.", "GPU-hours"
        ),
        TableColumn("signal", "number", "Sum of the absolute advantages of its samples."),
        TableColumn("uid", "text", "Its newest sample."),
        TableColumn("filter", "text", "Filter expression for its samples."),
        PROMPT,
    ),
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("least_steps", "integer", "Prompts with fewer visits are seldom."),
        TableColumn("pass_reward", "number", "A sample with at least this reward passes.", "reward"),
        TableColumn("pass_origin", "text", "run.json, setting, usual, or range: 90 % of the rewards' range."),
        TableColumn("classes", "object", "Number of prompts of each class."),
        TableColumn(
            "waste",
            "objects",
            "kind, rows, tokens, seconds, gpu_hours, share; a row of several kinds counts in each, and once "
            "in the last.",
        ),
        TableColumn("tokens", "number", "Response tokens of all prompts; null if not logged.", "tokens"),
        TableColumn("seconds", "number", "Known seconds of all steps; null if not logged.", "seconds"),
        TableColumn("gpu_hours", "number", "GPU-hours of all steps; null if not logged.", "GPU-hours"),
        TableColumn("gpus", "number", "GPUs of run.json; null if not logged."),
        TableColumn("seconds_from", "text", "Scalar or clock that the seconds come from; null without one."),
        TableColumn("untimed_steps", "integer", "Steps whose seconds are not known; they cost none."),
        TableColumn("interrupted_steps", "integer", "Steps over 10 median step times, which count as one."),
        TableColumn("untokened_rows", "integer", "Rows without a number of tokens; they cost none."),
        TableColumn(
            "signal_from",
            "text",
            "Column of the advantages, or computed: (R − mean) / (std + 1e-4) of a group.",
        ),
        TableColumn("missing", "texts", "What is not logged, with what to log."),
    ),
    relation=(
        *("prompt_key", "class", "visits", "samples", "unrewarded", "passed", "first", "last", "tokens"),
        *("seconds", "gpu_hours", "signal", "uid", "filter"),
    ),
    counts=True,
    example="rlpanel prompt-costs runs/exp1 --class never --limit 10",
    agents="Class each prompt as learnt, forgotten, flickers, never or always, with tokens, GPU-hours and "
    "signal, and sum what dead groups, discarded, failed and truncated samples wasted.",
)
def prompt_costs(
    run: RunData,
    *,
    classes: Classes = None,
    least_steps: LeastSteps = None,
    limit: Limit = None,
    offset: Offset = 0,
    text: PromptText = False,
    chars: PromptChars = None,
) -> Table:
    """Return each prompt's class, cost and signal, by class and the most expensive first.

    Parameters
    ----------
    run : RunData
    classes : sequence of str, optional
        Only prompts of these classes; all by default.
    least_steps : int, optional
        Prompts with fewer visits have the class seldom; 3 by default.
    limit : int, optional
        Maximum number of prompts; all by default.
    offset : int
        Number of prompts to skip.
    text : bool
        Read the texts of the returned prompts.
    chars : int, optional
        Maximum number of characters of each text.

    Raises
    ------
    SettingError
        If there is no such class.
    """
    import numpy as np

    from rlpanel.queries.run_columns import counted_by, questions_of
    from rlpanel.store.query.curriculum import checked_classes
    from rlpanel.store.query.filter_columns import prompt_key
    from rlpanel.store.query.filter_syntax import quote
    from rlpanel.store.snapshot.prompt_classes import CLASSES, costs_of_prompts
    from rlpanel.store.snapshot.prompt_grid import prompt_grid
    from rlpanel.texts.shorten import TextLimit

    snapshot, least = run.snapshot, 3 if least_steps is None else least_steps
    costs = costs_of_prompts(snapshot, prompt_grid(snapshot), least)
    grid = costs.grid
    chosen = costs.order if not classes else costs.of(checked_classes(classes))
    shown = page(chosen.tolist(), offset, limit)
    places = grid.newest[shown] if shown else np.empty(0, int)
    texts = questions_of(run, places, TextLimit(chars)) if text else [None] * len(shown)
    first, last = costs.first_and_last
    samples, passed, unrewarded = grid.samples_of_prompts, grid.by_prompt(grid.passed), grid.unrewarded
    visits, gpu_hours = grid.visits, costs.gpu_hours
    rows = []
    for at, row, each in zip(shown, places.tolist(), texts, strict=True):
        key = prompt_key(int(snapshot.prompts(np.array([row]))[0]))
        rows.append(
            {
                "prompt_key": key,
                "class": CLASSES[costs.classes[at]],
                "visits": int(visits[at]),
                "samples": int(samples[at]),
                "unrewarded": int(unrewarded[at]),
                "passed": float(passed[at] / samples[at]) if samples[at] else None,
                "first": float(first[at]),
                "last": float(last[at]),
                "tokens": float(costs.tokens[at]),
                "seconds": float(costs.seconds[at]),
                "gpu_hours": float(gpu_hours[at]),
                "signal": float(costs.signal[at]),
                "uid": snapshot.uid(row),
                "filter": f"prompt_key == {quote(key)}",
                "prompt": each,
            }
        )
    about = {"run": run.name, "split": snapshot.split, "by": counted_by(snapshot), "least_steps": least}
    return prompt_costs.table(rows, total=len(chosen), offset=offset, about=about | _about(costs))


def _about(costs: PromptCosts) -> dict[str, Any]:
    from dataclasses import asdict

    import numpy as np

    from rlpanel.store.snapshot.prompt_classes import CLASSES

    grid, times = costs.grid, costs.times
    counts = np.bincount(costs.classes, minlength=len(CLASSES)).tolist()
    seconds = float(np.nansum(times.seconds)) if times.source else None
    is_known = seconds is not None and math.isfinite(costs.gpus)
    return {
        "pass_reward": grid.rule.reward,
        "pass_origin": grid.rule.origin,
        "classes": dict(zip(CLASSES, counts, strict=True)),
        "waste": [asdict(each) for each in costs.waste],
        "tokens": float(grid.cost.sum(dtype=float)) if grid.has_tokens else None,
        "seconds": seconds,
        "gpu_hours": (seconds or 0.0) * costs.gpus / 3600 if is_known else None,
        "gpus": costs.gpus if math.isfinite(costs.gpus) else None,
        "seconds_from": times.source or None,
        "untimed_steps": int(np.count_nonzero(~np.isfinite(times.seconds))),
        "interrupted_steps": times.interrupted,
        "untokened_rows": grid.untokened,
        "signal_from": grid.advantages or "computed",
        "missing": costs.missing(),
    }
