"""The commands ``link | schema``: an address of the board, and the columns of a table; they read no run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rlpanel.board_url import USUAL_ADDRESS
from rlpanel.cli import completion, shared_options
from rlpanel.errors import SettingError


def link(
    run: shared_options.Run,
    step: shared_options.Step = None,
    sample: Annotated[str, typer.Option(help="Uid of a sample.")] = "",
    token: Annotated[int, typer.Option(min=-1, help="Position of a token; -1 for none.")] = -1,
    metric: Annotated[
        str,
        typer.Option(
            help="Token metric that colours the text.",
            show_default="log_ratio",
            autocompletion=completion.token_metrics,
        ),
    ] = "",
    filter: shared_options.FilterBy = "",
    search: Annotated[str, typer.Option(help="Text to find in prompts and responses.")] = "",
    sort: shared_options.Sort = "",
    split: shared_options.Split = "",
    against: Annotated[str, typer.Option(help="Folder of a run to compare with.")] = "",
    root: Annotated[
        str, typer.Option(help="The folder that the board serves.", show_default="the run's parent folder")
    ] = "",
    url: Annotated[str, typer.Option(help="Address of the board.")] = USUAL_ADDRESS,
) -> None:
    """Print the board's address of a run, step, sample, filter or search; nothing is read."""
    from pathlib import Path

    from rlpanel.board_url import board_link

    folder = Path(run).resolve()
    base = Path(root).resolve() if root else folder.parent
    address = board_link(
        _below(base, folder),
        step=step,
        sample=sample,
        token=token,
        metric=metric,
        filter=filter,
        search=search,
        sort=sort,
        split=split,
        against=_below(base, Path(against).resolve()) if against else "",
        url=url,
    )
    typer.echo(address)


def _below(root: object, folder: object) -> str:
    """Return the name of a run as the board has it: its path below the root."""
    from pathlib import Path

    root, folder = Path(str(root)), Path(str(folder))
    if not folder.is_relative_to(root):
        raise SettingError(f"{folder} is not below {root}; give the folder that the board serves with --root")
    return folder.relative_to(root).as_posix()


def schema(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a table.", metavar="TABLE", autocompletion=completion.table_names),
    ] = None,
    row: Annotated[bool, typer.Option("--row", help="The schema of one row, as --jsonl prints it.")] = False,
) -> None:
    """Print the JSON schema of a table, as --json prints it; without a name, list the tables."""
    from rlpanel.queries.catalogue import QUESTIONS, document_schema, question_of, row_schema

    if name is None:
        for question in QUESTIONS.values():
            typer.echo(f"{question.name:<14} {question.description}")
        return
    found = question_of(name).spec
    typer.echo(json.dumps(row_schema(found) if row else document_schema(found), indent=2))


#: Each command and an example of its use, in the order of the help.
COMMANDS = {
    link: "rlpanel link runs/exp1 --step 20 --sort=-kl_k3_mean",
    schema: "rlpanel schema samples",
}
