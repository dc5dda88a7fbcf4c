"""The commands: ``rlpanel demo | serve | index | export | convert``.

Each command imports what it needs when it runs, so that ``rlpanel --help`` answers at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import rlpanel
from rlpanel.cli.cost import cpu_seconds, peak_memory
from rlpanel.cli.options import (
    AlertCommand,
    AlertSeverity,
    AlertUrl,
    Host,
    Map,
    Origin,
    Port,
    Show,
    Token,
    Tokenizer,
)
from rlpanel.cli.serving import folder_of, say, serve_board
from rlpanel.errors import RLPanelError

app = typer.Typer(
    name="rlpanel",
    help="Watch what a language model does while reinforcement learning trains it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

convert_app = typer.Typer(no_args_is_help=True, help="Turn files that the board does not read into lines.")
app.add_typer(convert_app, name="convert")


def main() -> None:
    """Run the command line; what goes wrong on purpose is one red line and exit code 2."""
    _name_a_home()
    try:
        app()
    except RLPanelError as error:
        say(f"rlpanel: {error}", typer.colors.RED)
        sys.exit(2)


@app.command()
def demo(
    host: Host = "127.0.0.1",
    port: Port = 5006,
    show: Show = None,
    seconds_per_step: Annotated[
        float, typer.Option(min=0.0, help="How long each step of the replayed training takes.")
    ] = 1.0,
) -> None:
    """Open the board on a recorded run that grows as if it trained now, beside a finished one.

    A browser is opened where there is a screen, unless --no-show says otherwise.
    """
    _end_on_sigterm()
    from rlpanel.app.demo import Demo

    with Demo(seconds_per_step) as run:
        serve_board(run.root, host, port, _has_screen() if show is None else show)


@app.command()
def serve(
    root: Annotated[
        str | None,
        typer.Argument(
            help="Folder with runs below it, here or elsewhere (s3://bucket/runs), or an experiment's name "
            "(EXP_NAME).",
            show_default="$RLPANEL_ROOT, then ./rollout_samples",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 5006,
    show: Show = False,
    token: Token = None,
    origin: Origin = None,
    keys: Map = None,
    tokenizer: Tokenizer = None,
    alert_url: AlertUrl = None,
    alert_command: AlertCommand = None,
    alert_severity: AlertSeverity = None,
) -> None:
    """Open the board on the runs below a folder and follow what training appends to them."""
    _tell_reader(keys, tokenizer)
    _tell({"ALERT_URL": alert_url, "ALERT_COMMAND": alert_command, "ALERT_SEVERITY": alert_severity})
    serve_board(folder_of(root), host, port, bool(show), token, tuple(origin or ()), alerts=True)


@app.command()
def index(
    run: Annotated[str, typer.Argument(help="A run's folder, here or elsewhere (s3://bucket/runs/exp1).")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for a program.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=0, max=64, help="Processes that help with a big run.", show_default="$RLPANEL_JOBS, 2"
        ),
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            help="A dask scheduler (tcp://HOST:8786) whose workers read a big run instead of processes.",
            show_default=False,
        ),
    ] = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Read a run once and say what it holds and what reading it cost."""
    _tell_reader(keys, tokenizer)
    open_run = rlpanel.open_run  # what loading pandas costs is no cost of this run
    began, cpu = time.perf_counter(), cpu_seconds()
    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        found = asdict(opened.stats())
    found |= {
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_memory_bytes": peak_memory(),
    }
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, value in found.items():
        shown = "unknown" if value is None else f"{value:,}"
        typer.echo(f"{name.replace('_', ' '):<18} {shown:>16}")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    html: Annotated[
        Path,
        typer.Option(help="The file to write; one that is there is replaced. - is standard output."),
    ],
    split: Annotated[
        str, typer.Option(help="Whose samples, where evaluations are logged too.", show_default="train")
    ] = "",
    step: Annotated[
        int | None, typer.Option(help="The step to show.", show_default="the newest complete one")
    ] = None,
    filter: Annotated[str, typer.Option(help="Which samples, as on the board: reward < 0")] = "",
    sort: Annotated[str, typer.Option(help="In which order: a column, with - from its largest down.")] = "",
    samples: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many samples.")] = 32,
    sample: Annotated[str, typer.Option(help="This sample alone, by its uid.")] = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Write the board as one HTML file that opens without a server and without a network."""
    _tell_reader(keys, tokenizer)
    from rlpanel.app.export import export as write
    from rlpanel.app.export import is_stdout

    size = write(run, html, split=split, step=step, filter=filter, sort=sort, samples=samples, uid=sample)
    typer.echo(f"{html}: {size / 1e6:.1f} MB", err=is_stdout(html))


@convert_app.command()
def slime(
    folder: Annotated[Path, typer.Argument(help="What slime was given as --dump-details.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the lines go.", show_default="FOLDER/rlpanel")
    ] = None,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Read pickles that can run code; only for files you trust.")
    ] = False,
) -> None:
    """Write slime's torch dumps as lines that the board reads; what was converted before is kept."""
    from rlpanel.sources.slime import convert

    target = out or folder / "rlpanel"
    done = convert(folder, out, trusted=trusted)
    kept = f", {done.kept:,} were there already" if done.kept else ""
    typer.echo(f"{done.samples:,} samples in {done.files:,} files to {target}{kept}: rlpanel serve {target}")


def _tell_reader(keys: str | None, tokenizer: Path | None) -> None:
    """Settings of reading go by way of the environment, where processes that help find them too.

    What is wrong with them is said now, not when the first file is met.
    """
    from rlpanel.settings import Reading
    from rlpanel.sources.beside import from_settings

    _tell({"MAP": keys, "TOKENIZER": str(tokenizer.resolve()) if tokenizer else None})
    from_settings(Reading.from_environment())


def _tell(settings: dict[str, str | None]) -> None:
    """Settings that were given, to whoever takes them from the environment."""
    os.environ |= {f"RLPANEL_{name}": value for name, value in settings.items() if value}


def _name_a_home() -> None:
    """Name a home that does not exist where the system knows none: bokeh asks for it when it is imported."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/nonexistent"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rlpanel {rlpanel.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Take what stands before a command."""


def _has_screen() -> bool:
    """Whether a browser opened here would be seen, rather than sent through an ssh connection."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in {"darwin", "win32"} or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _end_on_sigterm() -> None:
    """Leave by way of every ``with`` block when asked to end, before the server listens for it itself."""

    def leave(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
