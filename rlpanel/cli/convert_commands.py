"""The commands ``convert …``: convert files that the board cannot read to JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlpanel.cli.output.terminal_messages import printable

app = typer.Typer(no_args_is_help=True, help="Convert files that the board cannot read to JSON lines.")


@app.command()
def slime(
    folder: Annotated[Path, typer.Argument(help="The folder passed to slime as --dump-details.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON lines.", show_default="FOLDER/rlpanel")
    ] = None,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Read pickles, which can run code; only for files you trust.")
    ] = False,
) -> None:
    """Convert slime's torch dumps to JSON lines that the board reads; converted files are skipped."""
    from rlpanel.sources.slime_convert import convert

    target = out or folder / "rlpanel"
    result = convert(folder, out, trusted=trusted)
    skipped = f", {result.kept:,} existed already" if result.kept else ""
    said = (
        f"{result.samples:,} samples in {result.files:,} files written to {target}{skipped}. "
        f"Next: rlpanel serve {target}"
    )
    typer.echo(printable(said))
