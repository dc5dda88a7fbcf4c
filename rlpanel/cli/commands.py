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
from typing import Annotated, Any, NoReturn

import typer

import rlpanel
from rlpanel.cli.cost import cpu_seconds, peak_memory
from rlpanel.cli.options import (
    AlertCommand,
    AlertSeverity,
    AlertUrl,
    CsvFile,
    FollowLinks,
    Host,
    HtmlFile,
    JsonlFile,
    Map,
    Origin,
    ParquetFile,
    Port,
    Show,
    Token,
    Tokenizer,
    Watch,
)
from rlpanel.cli.serving import folder_of, say, serve_board
from rlpanel.errors import RLPanelError

#: Samples of one HTML file; a browser builds a view of each.
MOST_IN_HTML = 10_000

app = typer.Typer(
    name="rlpanel",
    help="Watch what a language model does while reinforcement learning trains it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

#: Exit code of `index` where a file of the run was not read.
_NOT_WHOLE = 3

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
    watch: Watch = None,
    follow_links: FollowLinks = False,
    alert_url: AlertUrl = None,
    alert_command: AlertCommand = None,
    alert_severity: AlertSeverity = None,
) -> None:
    """Open the board on the runs below a folder and follow what training appends to them."""
    _tell_reader(keys, tokenizer, follow_links)
    _tell({"ALERT_URL": alert_url, "ALERT_COMMAND": alert_command, "ALERT_SEVERITY": alert_severity})
    _tell({"WATCH": None if watch is None else str(watch)})
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
    follow_links: FollowLinks = False,
) -> None:
    """Read a run once and say what it holds and what reading it cost.

    The exit code is 0 if the run was read whole, 2 on an error, and 3 if a file of it was not read.
    """
    _tell_reader(keys, tokenizer, follow_links)
    open_run = rlpanel.open_run  # what loading pandas costs is no cost of this run
    began, cpu = time.perf_counter(), cpu_seconds()
    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        found, unread = asdict(opened.stats()), opened.snapshot.unread
    found |= {
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_memory_bytes": peak_memory(),
    }
    if as_json:
        listed = [{"file": one.file, "reason": one.reason} for one in unread]
        typer.echo(json.dumps(found | {"unread": listed}))
    else:
        for name, value in (found | {"files_not_read": len(unread)}).items():
            shown = "unknown" if value is None else f"{value:,}"
            typer.echo(f"{name.replace('_', ' '):<18} {shown:>16}")
    for one in unread:
        say(f"not read: {one.file}: {one.reason}", typer.colors.YELLOW)
    if unread:
        raise typer.Exit(_NOT_WHOLE)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    html: HtmlFile = None,
    csv: CsvFile = None,
    jsonl: JsonlFile = None,
    parquet: ParquetFile = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV: keep texts that a spreadsheet would take for formulas.")
    ] = False,
    split: Annotated[
        str, typer.Option(help="Whose samples, where evaluations are logged too.", show_default="train")
    ] = "",
    step: Annotated[
        int | None,
        typer.Option(help="The step.", show_default="HTML: the newest complete one; else all steps"),
    ] = None,
    filter: Annotated[str, typer.Option(help="Which samples, as on the board: reward < 0")] = "",
    sort: Annotated[str, typer.Option(help="In which order: a column, with - from its largest down.")] = "",
    samples: Annotated[
        int | None, typer.Option(min=1, help="At most so many samples.", show_default="HTML: 32; else all")
    ] = None,
    sample: Annotated[str, typer.Option(help="This sample alone, by its uid.")] = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Write the board as one HTML file that opens without a server, or the samples as rows."""
    kind, file = _target({"HTML": html, "CSV": csv, "JSONL": jsonl, "parquet": parquet})
    if raw and kind != "CSV":
        raise typer.BadParameter("--raw goes with --csv; the other files hold texts as they were logged")
    if kind == "HTML" and samples is not None and samples > MOST_IN_HTML:
        raise typer.BadParameter(f"--samples is at most {MOST_IN_HTML:,} with --html")
    _tell_reader(keys, tokenizer, follow_links)
    from rlpanel.app.run_export import export as export_html
    from rlpanel.app.run_export import export_rows, is_stdout
    from rlpanel.panels.report.report import SAMPLES

    asked: dict[str, Any] = {"split": split, "step": step, "filter": filter, "sort": sort, "uid": sample}
    if kind == "HTML":
        size = export_html(run, file, samples=samples or SAMPLES, **asked)
    else:
        size = export_rows(run, file, "CSV, raw" if raw else kind, samples=samples, **asked)
    typer.echo(f"{file}: {size / 1e6:.1f} MB", err=is_stdout(file))


def _target(files: dict[str, Path | None]) -> tuple[str, Path]:
    """The one kind of file that was asked for."""
    given = [(kind, file) for kind, file in files.items() if file is not None]
    if len(given) != 1:
        raise typer.BadParameter("give exactly one of --html, --csv, --jsonl and --parquet")
    return given[0]


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


def _tell_reader(keys: str | None, tokenizer: Path | None, follow_links: bool) -> None:
    """Settings of reading go by way of the environment, where processes that help find them too.

    What is wrong with them is said now, not when the first file is met.
    """
    from rlpanel.settings import Reading
    from rlpanel.sources.discovery.folder_config import from_settings

    _tell({"MAP": keys, "TOKENIZER": str(tokenizer.resolve()) if tokenizer else None})
    _tell({"FOLLOW_LINKS": "1" if follow_links else None})
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
