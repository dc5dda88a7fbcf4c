"""Arguments and options that many commands share: the run, the reader's settings, formats, and texts."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated, Any

import typer

from rlpanel.cli import completion
from rlpanel.cli.options import RAW_HELP, RUN_HELP, SPLIT_HELP, FollowLinks, Jobs, Map, Tokenizer
from rlpanel.queries import question_options
from rlpanel.queries.question_options import Option, option_of

_OUTPUT, _READING = "Output", "Reading"

Run = Annotated[
    str,
    typer.Argument(
        help=RUN_HELP,
        metavar="RUN",
        autocompletion=completion.runs,
    ),
]
Split = Annotated[
    str,
    typer.Option(help=SPLIT_HELP, show_default="train", rich_help_panel=_READING),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)]
AsJsonl = Annotated[
    bool, typer.Option("--jsonl", help="Print one JSON object per row.", rich_help_panel=_OUTPUT)
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.", rich_help_panel=_OUTPUT)]
Raw = Annotated[
    bool,
    typer.Option("--raw", help=RAW_HELP, rich_help_panel=_OUTPUT),
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


def declared(option: Option) -> Any:
    """Return what typer shows and checks for an option of a question."""
    shown: dict[str, Any] = {"help": option.help_text}
    if option.shown_default:
        shown["show_default"] = option.shown_default
    if option.min is not None:
        shown["min"] = option.min
    if option.complete:
        shown["autocompletion"] = getattr(completion, option.complete)
    if option.metavar:
        return typer.Argument(metavar=option.metavar, **shown)
    return typer.Option(*[option.flag] if option.flag else [], **shown)


# Those of questions, for commands that are not made of one.
Step = Annotated[int | None, declared(option_of(question_options.Step))]
FilterBy = Annotated[str, declared(option_of(question_options.FilterBy))]
Sort = Annotated[str, declared(option_of(question_options.Sort))]
Chars = Annotated[int, declared(option_of(question_options.Chars))]
TokenLimit = Annotated[int, declared(option_of(question_options.TokenLimit))]
Uid = Annotated[str, declared(option_of(question_options.Uid))]


def none_if_zero(number: int) -> int | None:
    """Return None, which means no limit, for 0."""
    return number or None


def names(text: str) -> list[str] | None:
    """Return names that are separated by commas; None if there are none."""
    return [name.strip() for name in text.split(",") if name.strip()] or None
