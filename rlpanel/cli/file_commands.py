"""The commands ``index | export | convert``: print what a run contains, write it to a file, convert files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rlpanel
from rlpanel.cli.people_tables import (
    array_documents,
    array_lines,
    arrays_left_out,
    bad_documents,
    bad_lines,
    inferred_document,
    inferred_lines,
)
from rlpanel.cli.shared_options import (
    RAW_HELP,
    AtifFolder,
    CsvFile,
    DatasetFolder,
    DefaultStep,
    FilterBy,
    FollowLinks,
    HtmlFile,
    Jobs,
    Json,
    JsonlFile,
    Map,
    OnlyDefaultStep,
    ParquetFile,
    RunFolder,
    Scheduler,
    SessionsFolder,
    SplitOption,
    Tokenizer,
    listed,
    say_left_out,
    say_remarks,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.table_output import json_text, write_file_part
from rlpanel.cli.terminal_messages import INCOMPLETE, printable

if TYPE_CHECKING:
    from rlpanel.sources.files.file_access import AnyPath
    from rlpanel.sources.slime_convert import Converted


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not report it.

    On Linux ``ru_maxrss`` includes the memory of the parent process, so ``VmHWM`` is preferred.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


#: Most samples of one HTML file; the browser builds a view for each of them.
MAX_IN_HTML = 10_000


def index(
    run: RunFolder,
    as_json: Json = False,
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
    bad: Annotated[
        int, typer.Option("--bad", min=0, help="Print so many bad lines, with reasons and their beginning.")
    ] = 0,
    publish: Annotated[
        str,
        typer.Option(
            help="Copy the index to this folder or S3 URL, for other machines with RLPANEL_INDEX=URL.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Read a run once and print what it contains and how much time and memory reading took.

    Of files that no format describes, it prints which key was taken for which field, and why. The exit code
    is 0 if the whole run was read, 2 after an error, and 3 if a file of it was not read.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    if publish:
        os.environ["RLPANEL_INDEX"] = publish
    from rlpanel.store.snapshot.remarks import listed_remarks

    open_run = rlpanel.open_run  # import pandas before the clock starts
    began, cpu = time.perf_counter(), cpu_seconds()
    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        snapshot, remarks = opened.snapshot, opened.remarks
        stats, unread, newer = asdict(opened.stats()), snapshot.unread, snapshot.newer_writers
        bad_shown = bad_documents(opened.path, snapshot.bad_lines[:bad])
        left = opened.left_out
        arrays, surplus = array_documents(snapshot), arrays_left_out(snapshot)
    stats |= {
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_memory_bytes": peak_memory(),
    }
    if as_json:
        known: dict[str, Any] = {"unread": listed(unread), "remarks": listed_remarks(remarks)}
        known |= {"newer_writers": list(newer), "inferred": [*map(inferred_document, snapshot.inferences)]}
        known |= {"bad": bad_shown} if bad else {}
        known |= {"token_arrays": arrays, "token_arrays_left_out": surplus} if arrays else {}
        typer.echo(json_text(stats | known | {"left_out": left.listed}, ascii_only=True))
    else:
        if stats["episodes"] == stats["rows"]:
            del stats["episodes"]
        for name, value in (stats | {"excluded": left.excluded, "files_not_read": len(unread)}).items():
            text = "unknown" if value is None else f"{value:,}"
            typer.echo(f"{name.replace('_', ' '):<18} {text:>16}")
        for line in inferred_lines(snapshot.inferences):
            typer.echo(printable(line))
        for line in array_lines(arrays, surplus):
            typer.echo(printable(line))
        for line in bad_lines(bad_shown, snapshot.bad_count) if bad else ():
            typer.echo(printable(line))
    say_remarks(remarks)
    say_left_out(left)
    say_unread(unread)
    for sentence in newer:
        typer.echo(printable(f"rlpanel: note: {sentence}; new fields may not be read"), err=True)
    if publish:
        _publish(opened.path, publish)
    if unread:
        raise typer.Exit(INCOMPLETE)


def _publish(run: AnyPath, place: str) -> None:
    """Publish the index of a run that was just read."""
    from rlpanel.settings import Reading
    from rlpanel.store.cache.run_cache import RunCache

    def show(said: str) -> None:
        if sys.stderr.isatty():
            typer.echo(printable(f"publishing {said} at {place}"), err=True)

    made = RunCache(run, Reading.from_environment().line_bytes, place).publish(show)
    typer.echo(printable(f"rlpanel: published the {made.sentence()} at {place}"), err=True)


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    html: HtmlFile = None,
    csv: CsvFile = None,
    jsonl: JsonlFile = None,
    parquet: ParquetFile = None,
    atif: AtifFolder = None,
    sessions: SessionsFolder = None,
    dataset: DatasetFolder = None,
    raw: Annotated[bool, typer.Option("--raw", help=RAW_HELP)] = False,
    split: SplitOption = "",
    step: Annotated[
        int | None,
        typer.Option(
            help="Step to export.", show_default="HTML: the newest complete step; otherwise all steps"
        ),
    ] = None,
    filter: FilterBy = "",
    sort: Annotated[str, typer.Option(help="Column to sort by; a leading - sorts descending.")] = "",
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of samples.", show_default="HTML: 32; otherwise all"),
    ] = None,
    sample: Annotated[str, typer.Option(help="Export only the sample with this uid.")] = "",
    scheduler: Annotated[
        str,
        typer.Option(
            help="Dask scheduler (tcp://HOST:8786) whose workers write a --dataset.", show_default=False
        ),
    ] = "",
    keys: Map = None,
    default_step: OnlyDefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Write the board as an HTML file that opens without a server, or the samples as rows or trajectories."""
    kind, file = _output(
        {
            "HTML": html,
            "CSV": csv,
            "JSONL": jsonl,
            "parquet": parquet,
            "atif": atif,
            "sessions": sessions,
            "dataset": dataset,
        }
    )
    if scheduler and kind != "dataset":
        raise typer.BadParameter("--scheduler requires --dataset; other files are written here")
    if kind == "dataset" and (step is not None or filter or sort or samples or sample):
        raise typer.BadParameter("--dataset holds all samples: choose them where it is opened")
    if raw and kind != "CSV":
        raise typer.BadParameter("--raw requires --csv; the other formats keep texts as they were logged")
    if kind == "HTML" and samples is not None and samples > MAX_IN_HTML:
        raise typer.BadParameter(f"--samples must be at most {MAX_IN_HTML:,} with --html")
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    if kind == "dataset":
        _export_dataset(run, file, split, scheduler)
        return
    from rlpanel.app.run_export import export as export_html
    from rlpanel.app.run_export import export_rows, is_stdout
    from rlpanel.panels.report.report import SAMPLES

    if kind == "parquet" and is_stdout(file) and sys.stdout.isatty():
        raise typer.BadParameter("parquet is not text: name a file, or write it into a pipe")
    out: dict[str, Any] = {"write": write_file_part, "note": say_left_out}
    query: dict[str, Any] = {"split": split, "step": step, "filter": filter, "sort": sort, "uid": sample}
    if kind in ("atif", "sessions"):
        _export_trajectories(run, file, kind, samples=samples, **query)
        return
    if kind == "HTML":
        size = export_html(run, file, samples=samples or SAMPLES, **out, **query)
    else:
        kind = "CSV, raw" if raw else kind
        size = export_rows(run, file, kind, samples=samples, **out, **query)
    typer.echo(printable(f"{file}: {size / 1e6:.1f} MB"), err=is_stdout(file))


def _export_trajectories(run: Path, folder: Path, kind: str, **query: Any) -> None:
    """Write samples as trajectories; the exit code is 3 if one of them could not be read."""
    from rlpanel.app.run_export import export_trajectories
    from rlpanel.store.query.trajectory_files import TRAJECTORIES

    known = TRAJECTORIES[kind]
    written = export_trajectories(run, folder, known, note=say_left_out, **query)
    typer.echo(printable(f"{folder}: {written.files:,} files of {known.name}, {written.bytes / 1e6:.1f} MB"))
    if written.media:
        typer.echo(f"rlpanel: {written.media:,} images, audios and videos were left out", err=True)
    if written.unread:
        said = f"rlpanel: {written.unread:,} samples could not be read, the first because {written.reason}"
        typer.echo(printable(said), err=True)
        raise typer.Exit(INCOMPLETE)


def _export_dataset(run: Path, folder: Path, split: str, scheduler: str) -> None:
    """Write samples and tokens as parquet files; the exit code is 3 if a sample could not be read."""
    from rlpanel.dataset.dataset_files import WrittenPart, write_dataset
    from rlpanel.dataset.dataset_parts import parts_of

    began = time.perf_counter()

    def show(done: int, total: int, written: WrittenPart) -> None:
        if sys.stderr.isatty():
            rate = written.bytes / 1e6 / max(time.perf_counter() - began, 1e-9)
            text = f"{done:,} of {total:,} parts, {written.samples:,} samples, {rate:.1f} MB/s"
            typer.echo(f"\r{text:<70}", err=True, nl=done == total)

    with rlpanel.open_run(run, follow=False, scheduler=scheduler) as opened:
        read = opened.split(split) if split else opened
        say_left_out(read.left_out)
        say_unread(read.snapshot.unread)
        parts = parts_of(read.index, read.view)
        written = write_dataset(parts, folder, run=read.name, scheduler=scheduler, progress=show)
    said = f"{written.samples:,} samples, {written.tokens:,} tokens, {written.bytes / 1e6:.1f} MB"
    typer.echo(printable(f"{folder}: {len(parts):,} parts, {said}"))
    if written.unread:
        said = f"rlpanel: the tokens of {written.unread:,} samples could not be read, the first because "
        typer.echo(printable(said + written.reason), err=True)
        raise typer.Exit(INCOMPLETE)


def _output(files: dict[str, Path | None]) -> tuple[str, Path]:
    """Return the format and the path of the only output file given."""
    given = [(kind, file) for kind, file in files.items() if file is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "give exactly one of --html, --csv, --jsonl, --parquet, --atif, --sessions and --dataset"
        )
    return given[0]


COMMANDS = {
    index: "rlpanel index runs/exp1",
    export: "rlpanel export runs/exp1 --jsonl samples.jsonl --step 20",
}


app = typer.Typer(no_args_is_help=True, help="Convert files that the board cannot read to JSON lines.")


@app.command()
def slime(
    folder: Annotated[Path, typer.Argument(help="The folder passed to slime as --dump-details.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON lines.", show_default="FOLDER/rlpanel")
    ] = None,
) -> None:
    """Convert torch dumps of slime and miles to JSON lines; converted files are skipped.

    The pickles are read without torch, in a process without rights that runs nothing which they name.
    """
    from rlpanel.sources.slime_convert import convert

    target = out or folder / "rlpanel"
    result = convert(folder, out)
    skipped = f", {result.kept:,} existed already" if result.kept else ""
    said = (
        f"{result.samples:,} samples in {result.files:,} files written to {target}{skipped}. "
        f"Next: rlpanel serve {target}"
    )
    typer.echo(printable(said))
    for remark in _remarks(result):
        typer.echo(printable(remark), err=True)
    for remark in _remarks(result):
        typer.echo(printable(remark), err=True)


def _remarks(result: Converted) -> Iterator[str]:
    """Yield what a conversion left out."""
    if result.left_out:
        names = ", ".join(f"{count:,} × {name}" for name, count in result.left_out.most_common(5))
        yield f"Objects of these classes were left out, and none of their code ran: {names}."
    if result.untrained:
        yield f"{result.untrained:,} samples have no arrays in train_data, though others of the rollout do."
    if result.alone:
        yield f"{result.alone:,} samples have no conversation in trajectory, though others do."
