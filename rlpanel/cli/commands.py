"""The commands ``rlpanel demo | serve | index | check | export | convert``.

Each command imports its modules only when it runs, so that ``rlpanel --help`` starts quickly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import rlpanel
from rlpanel.cli.options import (
    AlertCommand,
    AlertSeverity,
    AlertUrl,
    CsvFile,
    FailLevel,
    FailOn,
    FollowLinks,
    Host,
    HtmlFile,
    Jobs,
    Json,
    JsonlFile,
    Map,
    Origin,
    ParquetFile,
    Port,
    RunFolder,
    Scheduler,
    Show,
    Token,
    Tokenizer,
    Watch,
)
from rlpanel.cli.resource_usage import cpu_seconds, peak_memory
from rlpanel.cli.serving import folder_of, say, serve_board
from rlpanel.errors import RLPanelError

if TYPE_CHECKING:
    from rlpanel.sources.files.unreadable import Unread

#: Most samples of one HTML file; the browser builds a view for each of them.
MOST_IN_HTML = 10_000

app = typer.Typer(
    name="rlpanel",
    help="Watch what a language model does while reinforcement learning trains it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

#: Exit codes: `check` found something; a file of the run was not read.
_FOUND, _INCOMPLETE = 1, 3
#: Severities for which `check` exits with 1.
_FAILING = {FailOn.ALARM: ("alarm",), FailOn.WARNING: ("alarm", "warning"), FailOn.NEVER: ()}

convert_app = typer.Typer(
    no_args_is_help=True, help="Convert files that the board cannot read to JSON lines."
)
app.add_typer(convert_app, name="convert")


def main() -> None:
    """Run the command line; an `RLPanelError` is printed as one red line, with exit code 2."""
    _ensure_home()
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
        float, typer.Option(min=0.0, help="Seconds that each step of the replayed training takes.")
    ] = 1.0,
) -> None:
    """Open the board on two recorded runs: a finished one, and one that grows like a live training run.

    A browser is opened if there is a screen; --no-show prevents it.
    """
    _exit_on_sigterm()
    from rlpanel.app.demo import Demo

    with Demo(seconds_per_step) as run:
        serve_board(run.root, host, port, _has_screen() if show is None else show)


@app.command()
def serve(
    root: Annotated[
        str | None,
        typer.Argument(
            help="Folder that holds runs, local or remote (s3://bucket/runs), or the name of an experiment "
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
    """Serve the board for the runs below a folder, updated live while training appends to them."""
    _set_reader_environment(keys, tokenizer, follow_links)
    alerts = {"ALERT_URL": alert_url, "ALERT_COMMAND": alert_command, "ALERT_SEVERITY": alert_severity}
    _set_environment(alerts | {"WATCH": None if watch is None else str(watch)})
    serve_board(folder_of(root), host, port, bool(show), token, tuple(origin or ()), alerts=True)


@app.command()
def index(
    run: RunFolder,
    as_json: Json = False,
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Read a run once and print what it contains and how much time and memory reading took.

    The exit code is 0 if the whole run was read, 2 after an error, and 3 if a file of it was not read.
    """
    _set_reader_environment(keys, tokenizer, follow_links)
    open_run = rlpanel.open_run  # import pandas before the clock starts
    began, cpu = time.perf_counter(), cpu_seconds()
    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        stats, unread = asdict(opened.stats()), opened.snapshot.unread
    stats |= {
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_memory_bytes": peak_memory(),
    }
    if as_json:
        typer.echo(json.dumps(stats | {"unread": _listed(unread)}))
    else:
        for name, value in (stats | {"files_not_read": len(unread)}).items():
            text = "unknown" if value is None else f"{value:,}"
            typer.echo(f"{name.replace('_', ' '):<18} {text:>16}")
    _say_unread(unread)
    if unread:
        raise typer.Exit(_INCOMPLETE)


@app.command()
def check(
    run: RunFolder,
    as_json: Json = False,
    fail_on: FailLevel = FailOn.ALARM,
    split: Annotated[
        str, typer.Option(help="Split, for runs that log evaluations as well.", show_default="train")
    ] = "",
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Read a run once and print what the rules find in its complete steps, for scripts and CI.

    The exit code is 1 if a finding is at least as severe as --fail-on, 2 after an error, and 3 if there is no
    such finding but a file of the run was not read; otherwise it is 0.
    """
    _set_reader_environment(keys, tokenizer, follow_links)
    from rlpanel.cli.findings_text import print_findings
    from rlpanel.findings.findings_table import finding_dict
    from rlpanel.store.snapshot.complete_steps import newest_complete_step

    with rlpanel.open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        checked = opened.split(split) if split else opened
        findings, snapshot = checked.findings["finding"].tolist(), checked.snapshot
    newest = newest_complete_step(snapshot, time.time())
    steps = 0 if newest is None else int((snapshot.steps.values <= newest).sum())
    if as_json:
        about = {"run": snapshot.name, "path": str(checked.path), "split": snapshot.split, "steps": steps}
        listed = [finding_dict(finding) for finding in findings]
        typer.echo(json.dumps(about | {"findings": listed, "unread": _listed(snapshot.unread)}))
    else:
        print_findings(snapshot.name, findings, steps)
    _say_unread(snapshot.unread)
    if any(finding.severity in _FAILING[fail_on] for finding in findings):
        raise typer.Exit(_FOUND)
    if snapshot.unread:
        raise typer.Exit(_INCOMPLETE)


def _listed(unread: Sequence[Unread]) -> list[dict[str, str]]:
    """Return the files that were not read as JSON."""
    return [{"file": skipped.file, "reason": skipped.reason} for skipped in unread]


def _say_unread(unread: Sequence[Unread]) -> None:
    """Print the files that were not read."""
    for skipped in unread:
        say(f"not read: {skipped.file}: {skipped.reason}", typer.colors.YELLOW)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    html: HtmlFile = None,
    csv: CsvFile = None,
    jsonl: JsonlFile = None,
    parquet: ParquetFile = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV: do not escape texts that spreadsheets take for formulas.")
    ] = False,
    split: Annotated[
        str, typer.Option(help="Split, for runs that log evaluations as well.", show_default="train")
    ] = "",
    step: Annotated[
        int | None,
        typer.Option(
            help="Step to export.", show_default="HTML: the newest complete step; otherwise all steps"
        ),
    ] = None,
    filter: Annotated[str, typer.Option(help="Filter expression, as on the board: reward < 0")] = "",
    sort: Annotated[str, typer.Option(help="Column to sort by; a leading - sorts descending.")] = "",
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of samples.", show_default="HTML: 32; otherwise all"),
    ] = None,
    sample: Annotated[str, typer.Option(help="Export only the sample with this uid.")] = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Write the board as an HTML file that opens without a server, or the samples as rows."""
    kind, file = _output({"HTML": html, "CSV": csv, "JSONL": jsonl, "parquet": parquet})
    if raw and kind != "CSV":
        raise typer.BadParameter("--raw requires --csv; the other formats keep texts as they were logged")
    if kind == "HTML" and samples is not None and samples > MOST_IN_HTML:
        raise typer.BadParameter(f"--samples must be at most {MOST_IN_HTML:,} with --html")
    _set_reader_environment(keys, tokenizer, follow_links)
    from rlpanel.app.run_export import export as export_html
    from rlpanel.app.run_export import export_rows, is_stdout
    from rlpanel.panels.report.report import SAMPLES

    query: dict[str, Any] = {"split": split, "step": step, "filter": filter, "sort": sort, "uid": sample}
    if kind == "HTML":
        size = export_html(run, file, samples=samples or SAMPLES, **query)
    else:
        size = export_rows(run, file, "CSV, raw" if raw else kind, samples=samples, **query)
    typer.echo(f"{file}: {size / 1e6:.1f} MB", err=is_stdout(file))


def _output(files: dict[str, Path | None]) -> tuple[str, Path]:
    """Return the format and the path of the only output file given."""
    given = [(kind, file) for kind, file in files.items() if file is not None]
    if len(given) != 1:
        raise typer.BadParameter("give exactly one of --html, --csv, --jsonl and --parquet")
    return given[0]


@convert_app.command()
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
    typer.echo(
        f"{result.samples:,} samples in {result.files:,} files written to {target}{skipped}. "
        f"Next: rlpanel serve {target}"
    )


def _set_reader_environment(keys: str | None, tokenizer: Path | None, follow_links: bool) -> None:
    """Pass reader settings through the environment, so that worker processes get them as well.

    Invalid settings raise an error here, not when the first file is read.
    """
    from rlpanel.settings import Reading
    from rlpanel.sources.discovery.folder_config import from_settings

    _set_environment({"MAP": keys, "TOKENIZER": str(tokenizer.resolve()) if tokenizer else None})
    _set_environment({"FOLLOW_LINKS": "1" if follow_links else None})
    from_settings(Reading.from_environment())


def _set_environment(settings: dict[str, str | None]) -> None:
    """Set an environment variable ``RLPANEL_<name>`` for each setting that was given."""
    os.environ |= {f"RLPANEL_{name}": value for name, value in settings.items() if value}


def _ensure_home() -> None:
    """Set HOME to a missing folder if the user has no home: importing Bokeh fails without one."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/nonexistent"


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"rlpanel {rlpanel.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle options that precede a command."""


def _has_screen() -> bool:
    """Return True if a browser opened here would be visible: there is a display and no ssh connection."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in {"darwin", "win32"} or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _exit_on_sigterm() -> None:
    """Exit through all ``with`` blocks on SIGTERM, until the server installs its own handler."""

    def exit_cleanly(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, exit_cleanly)
