"""The tables of prompts over training: those that remain unsolved, and those whose rewards vary most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import LeastSteps, Limit, Offset, PromptChars, PromptKind, PromptText
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import BY, PROMPT, RUN, SPLIT, Table, TableColumn, page


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
