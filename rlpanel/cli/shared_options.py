"""Arguments and options that many commands share: the run, the reader's settings, formats, and texts."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated, Any

import typer

from rlpanel.cli import completion
from rlpanel.cli.options import FollowLinks, Jobs, Map, Tokenizer

_OUTPUT, _READING = "Output", "Reading"

Run = Annotated[
    str,
    typer.Argument(
        help="A run's folder, local or remote (s3://bucket/runs/exp1).",
        metavar="RUN",
        autocompletion=completion.runs,
    ),
]
Split = Annotated[
    str,
    typer.Option(
        help="Split, for runs that log evaluations as well.", show_default="train", rich_help_panel=_READING
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)]
AsJsonl = Annotated[
    bool, typer.Option("--jsonl", help="Print one JSON object per row.", rich_help_panel=_OUTPUT)
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.", rich_help_panel=_OUTPUT)]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="CSV: do not escape texts that spreadsheets take for formulas.", rich_help_panel=_OUTPUT
    ),
]


class CountBy(StrEnum):
    """The samples and rewards that count in means, pass rates and groups."""

    EPISODES = "episodes"
    ROWS = "rows"


By = Annotated[
    CountBy,
    typer.Option(help="Count the reward of each episode once, by its last row, or in each of its rows."),
]

#: Parameter → its annotation and its default.
SHARED: dict[str, tuple[Any, Any]] = {
    "run": (Run, inspect.Parameter.empty),
    "by": (By, CountBy.EPISODES),
    "split": (Split, ""),
    "jobs": (Jobs, None),
    "keys": (Map, None),
    "tokenizer": (Tokenizer, None),
    "follow_links": (FollowLinks, False),
    "as_json": (AsJson, False),
    "as_jsonl": (AsJsonl, False),
    "as_csv": (AsCsv, False),
    "raw": (Raw, False),
}

Step = Annotated[
    int | None,
    typer.Option(help="Only this step.", show_default="all steps", autocompletion=completion.steps),
]

FilterBy = Annotated[str, typer.Option("--filter", help="Filter expression, as on the board: reward < 0")]
Sort = Annotated[
    str,
    typer.Option(
        help="Column to sort by; a leading - sorts descending (--sort=-reward).",
        autocompletion=completion.sort_orders,
    ),
]
Chars = Annotated[int, typer.Option(min=0, help="Maximum number of characters of each text; 0 for all.")]
Uid = Annotated[str, typer.Argument(help="The sample's uid, as the other commands print it.", metavar="UID")]


def none_if_zero(number: int) -> int | None:
    """Return None, which means no limit, for 0."""
    return number or None


def names(text: str) -> list[str] | None:
    """Return names that are separated by commas; None if there are none."""
    return [name.strip() for name in text.split(",") if name.strip()] or None
