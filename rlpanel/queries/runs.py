"""The table of the runs below a root, with what is known of each without reading a large one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.number_text import size_text, utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Option, Root
from rlpanel.queries.table import Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.sources.discovery.directory import RunInfo
    from rlpanel.store.index.run_summary import RunSummary
    from rlpanel.store.index.summary_store import SummaryStore

#: Runs without a summary are read as long as they have fewer megabytes than this together.
MAX_READ = 256

_READ = "when the run was last read; null if it was never read, and unread says why"
#: Columns that runs can be sorted by.
SORTED = ("modified", "run", "bytes", "samples", "step", "reward", "severity")
RunSort = Annotated[
    str,
    Option(
        f"{', '.join(SORTED)}; a leading - sorts descending (--sort=-reward).",
        f"One of {', '.join(SORTED)}; a leading - sorts descending.", chars=200, shown_default="-modified",
    ),
]  # fmt: skip
MostRead = Annotated[
    int,
    Option(
        "Megabytes of runs without a summary that are read now, the newest first.", min=0, tool=False,
        flag="--read",
    ),
]  # fmt: skip


@question(
    description="The runs below a folder, the newest first.",
    columns=(
        TableColumn("run", "text", "Path of the run below the folder; a dot for the folder itself."),
        TableColumn("path", "text", "The run's folder, which the other commands take.", full=True),
        TableColumn("files", "integer", "Number of rollout files."),
        TableColumn("bytes", "integer", "Size of these files.", "bytes"),
        TableColumn(
            "modified",
            "text",
            "Time of the newest change, in UTC (ISO 8601); null outside of the years 1 to 9999.",
        ),
        TableColumn("samples", "integer", f"Number of samples {_READ}."),
        TableColumn("excluded", "integer", f"Number of samples of older attempts, or logged twice, {_READ}."),
        TableColumn("step", "integer", f"Newest complete step {_READ}."),
        TableColumn(
            "split",
            "text",
            "The split that the other columns are about. Runs of another split than train are evaluations.",
        ),
        TableColumn(
            "doubt",
            "text",
            "Samples that the step may hold as well: of an evaluation (evaluation) or of two attempts "
            "(attempts); empty if nothing says so.",
        ),
        TableColumn("reward", "number", f"Mean reward of that step {_READ}.", "reward"),
        TableColumn(
            "trend", "numbers", f"Mean rewards of at most 24 parts of the run {_READ}.", "reward", full=True
        ),
        TableColumn(
            "severity",
            "text",
            "alarm or warning: the worst finding that goes on or ended just now; empty without one; null if "
            "the run was never checked.",
        ),
        TableColumn("finding", "text", "The sentence of that finding."),
        TableColumn("unread", "text", "Why the run was not read; null if it was."),
    ),
    about=(
        TableColumn("root", "text", "The folder."),
        TableColumn("unread", "text", "How many runs were not read, why, and what reads them."),
    ),
    has_split=False,
    example="rlpanel runs runs",
    agents="List the runs, the newest first: samples, newest step and its reward; full: the reward's trend.",
)
def runs(
    root: Root,
    *,
    limit: Limit = None,
    offset: Offset = 0,
    sort: RunSort = "",
    read: MostRead = MAX_READ,
    summaries: Any = None,
    found: Any = None,
) -> Table:
    """Return the runs below a folder, the newest first, with their last reward and its trend.

    Runs that were never read are read now, up to 256 MB together. Of others, the last summary is returned.

    Parameters
    ----------
    root : path
    limit : int, optional
        Maximum number of runs; all by default.
    offset : int
        Number of runs to skip.
    sort : str
        One of `SORTED`, with ``-`` in front for descending order; the newest first by default. A run without
        a value comes last.
    read : int
        Megabytes of runs that were never read which are read now.
    summaries : SummaryStore, optional
        What is known of runs already; new ones are noted in it.
    found : sequence of RunInfo, optional
        The runs below the root, the newest first, if they were listed already.

    Raises
    ------
    RunNotFound
        If the root is not a folder.
    SettingError
        If runs cannot be sorted by this column.
    """
    from rlpanel.queries.run_columns import similar
    from rlpanel.sources.discovery.directory import discover
    from rlpanel.store.index.summary_store import SummaryStore

    by, falls = sort.removeprefix("-"), sort.startswith("-")
    if sort and by not in SORTED:
        raise SettingError(f"runs cannot be sorted by {by[:80]!r}{similar(by, SORTED)}")
    found = list(found) if found else discover(root)
    # Only what is printed is read, unless the order depends on what is in the runs.
    needs_all = by not in ("", "run", "modified", "bytes")
    if sort and not needs_all:
        found.sort(key=lambda info: info.name if by == "run" else getattr(info, by), reverse=falls)
    shown = found if needs_all else page(found, offset, limit)
    known = summaries or SummaryStore()
    large = _read_new(shown, known, read * 1_000_000)
    rows = [_row(info, known.of(info.path), f"{read:,} MB" if info in large else "") for info in shown]
    if needs_all:
        rows = page(_in_order(rows, by, falls=falls), offset, limit)
    about = {"root": str(root), "unread": _unread(large, len(shown), read)}
    return runs.table(rows, total=len(found), offset=offset, about=about)


#: Severities in the order in which runs are sorted by them.
_SEVERITIES = ("", "info", "warning", "alarm")


def _in_order(rows: list[dict[str, Any]], by: str, *, falls: bool) -> list[dict[str, Any]]:
    """Return rows in the order of a column; those without a value come last."""

    def value(row: dict[str, Any]) -> Any:
        return _SEVERITIES.index(row[by]) if by == "severity" else row[by]

    known = [row for row in rows if row.get(by) is not None]
    return sorted(known, key=value, reverse=falls) + [row for row in rows if row.get(by) is None]


def _unread(left: Sequence[RunInfo], count: int, read: int) -> str | None:
    """Say how many runs were not read, and what to do about it."""
    if not left:
        return None
    size = sum(info.bytes for info in left)
    return (
        f"{len(left):,} of {count:,} runs were not read, {size_text(size)} together: at most {read:,} MB are "
        "read at once, and their step and reward are those of their last lines. The next call goes on; "
        f"--read {-(-size // 1_000_000) + 1} reads all"
    )


def _read_new(infos: Sequence[RunInfo], summaries: SummaryStore, budget: int) -> list[RunInfo]:
    """Read runs without a summary; return those that were too large, of which the last lines are read."""
    from rlpanel.queries.read_whole_run import read_once
    from rlpanel.settings import Reading

    for _ in summaries.read_saved([info.path for info in infos]):
        pass
    reading, large = Reading.from_environment(jobs=0), []
    for info in infos:
        if summaries.of(info.path).samples:
            continue
        if info.bytes > budget:
            large.append(info)
            continue
        budget -= info.bytes
        try:
            read_once(info.path, info.root or info.path, reading, summaries=summaries).close()
        except RLPanelError:  # deleted meanwhile
            continue
    for _ in summaries.read_last_lines([info for info in large if isinstance(info.path, Path)], reading):
        pass
    return large


def _row(info: RunInfo, summary: RunSummary, most: str) -> dict[str, Any]:
    """Return a row; ``most`` says how much was read at once if the run was too large for it."""
    from rlpanel.store.columns.splits import TRAIN

    row: dict[str, Any] = {
        "run": info.name,
        "path": str(info.path),
        "files": info.files,
        "bytes": info.bytes,
        "modified": utc_text(info.modified),
        "split": info.split or TRAIN,
        "severity": summary.severity,
        "finding": summary.finding or None,
    }
    if summary.samples:
        names = ("samples", "excluded", "step", "split", "doubt", "reward", "trend")
        return row | {name: getattr(summary, name) for name in names}
    reason = f"its {size_text(info.bytes)} are more than what was left of {most} to read"
    if not most:
        reason = "no step of it is complete"
    return row | {"step": summary.step, "reward": summary.reward, "unread": reason}
