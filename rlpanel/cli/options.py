"""Options that several commands take, or that would hide what a command does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Host = Annotated[str, typer.Option(help="Address to listen on; other than loopback lets others read.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]
Show = Annotated[bool | None, typer.Option("--show/--no-show", help="Open the board in a browser.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="RLPANEL_TOKEN",
        help="Ask viewers for this token. Beyond loopback one is made up where none is given; "
        'an empty one ("") lets everybody in.',
        show_default=False,
    ),
]
Origin = Annotated[
    list[str] | None,
    typer.Option(help="host:port of a proxy through which browsers reach the board; may be repeated."),
]

Map = Annotated[
    str | None,
    typer.Option(
        "--map",
        envvar="RLPANEL_MAP",
        help="Which key is which, for logs in no known dialect: prompt=input,response=output,reward=score.",
        show_default=False,
    ),
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(
        envvar="RLPANEL_TOKENIZER",
        help="A tokenizer.json, for logs of token ids without their texts.",
        show_default=False,
    ),
]
Watch = Annotated[
    bool | None,
    typer.Option(
        "--watch/--no-watch",
        envvar="RLPANEL_WATCH",
        help="Follow all runs that grow, so that /health and /metrics speak for them with no page open.",
        show_default="on with alerts",
    ),
]
FollowLinks = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        envvar="RLPANEL_FOLLOW_LINKS",
        help="Follow links of your own that lead out of the folder, to runs elsewhere.",
        show_default=False,
    ),
]
AlertUrl = Annotated[
    str | None,
    typer.Option(envvar="RLPANEL_ALERT_URL", help="Post findings here as JSON.", show_default=False),
]
AlertCommand = Annotated[
    str | None,
    typer.Option(
        envvar="RLPANEL_ALERT_COMMAND", help="Run this with each finding on its input.", show_default=False
    ),
]
AlertSeverity = Annotated[
    str | None,
    typer.Option(
        envvar="RLPANEL_ALERT_SEVERITY", help="warning, or alarm: only those.", show_default="warning"
    ),
]


def _target(what: str, flag: str) -> Any:
    """Declare the option of a file that is written; ``-`` stands for the standard output."""
    return typer.Option(flag, help=f"Write {what} here; - is standard output.", show_default=False)


HtmlFile = Annotated[Path | None, _target("the board as one page", "--html")]
CsvFile = Annotated[Path | None, _target("samples as CSV", "--csv")]
JsonlFile = Annotated[Path | None, _target("samples as JSON lines", "--jsonl")]
ParquetFile = Annotated[Path | None, _target("samples as parquet", "--parquet")]
