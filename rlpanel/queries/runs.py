"""The table of the runs below a root, with what is known of each without reading a large one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlpanel.errors import RLPanelError
from rlpanel.number_text import utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Root
from rlpanel.queries.table import Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.sources.discovery.directory import RunInfo
    from rlpanel.store.index.run_summary import RunSummaries, RunSummary

#: Runs without a summary are read as long as they have fewer bytes than this together.
MAX_READ = 32 << 20

_READ = "when the run was last read; null if a large run was never read"


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
    ),
    about=(TableColumn("root", "text", "The folder."),),
    has_split=False,
    example="rlpanel runs runs",
    agents="List the runs, the newest first: samples, newest step and its reward; full: the reward's trend.",
)
def runs(root: Root, *, limit: Limit = None, offset: Offset = 0, summaries: Any = None) -> Table:
    """Return the runs below a folder, the newest first, with their last reward and its trend.

    Runs that were never read are read now, up to 32 MiB; of others, the last summary is returned.

    Parameters
    ----------
    root : path
    limit : int, optional
        Maximum number of runs; all by default.
    offset : int
        Number of runs to skip.
    summaries : RunSummaries, optional
        What is known of runs already; new ones are noted in it.

    Raises
    ------
    RunNotFound
        If the root is not a folder.
    """
    from rlpanel.sources.discovery.directory import discover
    from rlpanel.store.index.run_summary import RunSummaries

    found = discover(root)
    shown = page(found, offset, limit)
    known = _summaries_of(shown, summaries or RunSummaries())
    rows = [_row(info, summary) for info, summary in zip(shown, known, strict=True)]
    return runs.table(rows, total=len(found), offset=offset, about={"root": str(root)})


def _summaries_of(infos: Sequence[RunInfo], summaries: RunSummaries) -> list[RunSummary]:
    from rlpanel.queries.read_whole_run import read_once
    from rlpanel.settings import Reading

    for _ in summaries.read_saved([info.path for info in infos]):
        pass
    budget, reading = MAX_READ, Reading.from_environment(jobs=0)
    for info in infos:
        if not summaries.of(info.path).samples and info.bytes <= budget:
            budget -= info.bytes
            try:
                read_once(info.path, info.root or info.path, reading, summaries=summaries).close()
            except RLPanelError:  # deleted meanwhile
                continue
    return [summaries.of(info.path) for info in infos]


def _row(info: RunInfo, summary: RunSummary) -> dict[str, object]:
    from rlpanel.store.columns.splits import TRAIN

    row: dict[str, object] = {
        "run": info.name,
        "path": str(info.path),
        "files": info.files,
        "bytes": info.bytes,
        "modified": utc_text(info.modified),
        "split": info.split or TRAIN,
    }
    if summary.samples:
        row |= {
            name: getattr(summary, name)
            for name in ("samples", "excluded", "step", "split", "doubt", "reward", "trend")
        }
    return row
