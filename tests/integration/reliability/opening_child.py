"""Program for a child process that opens runs, and prints what each of them cost and said.

``python -m tests.integration.reliability.opening_child FOLDER…`` prints one JSON object per run. The child's
memory is limited. A run that takes longer than the limit ends it, with the stack in its stderr.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import Any

import rlpanel
from rlpanel.cli.file_commands import peak_memory
from rlpanel.store.index.summary_store import SummaryStore
from rlpanel.store.query.notes_beside_log import Notes
from tests.limits import small_runtime

MEMORY, SECONDS = 8 << 30, 60


class Messages(logging.Handler):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def opened(folder: Path, logged: Messages) -> dict[str, Any]:
    """Open a run as commands and pages do, and return its cost and everything that was said."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    logged.texts.clear()
    began = time.process_time()
    summaries = SummaryStore()
    *_, listed = [*summaries.read_saved([folder]), rlpanel.discover(folder)]
    summary = summaries.of(folder)
    run = rlpanel.open_run(folder, follow=False, jobs=0, runtime=small_runtime(min_log_bytes=0))
    notes = Notes(run.path)
    notes.labels(run.snapshot)
    found = len(run.findings)
    faulthandler.cancel_dump_traceback_later()
    return {
        "seconds": time.process_time() - began,
        "megabytes": (peak_memory() or 0) >> 20,
        "rows": run.snapshot.samples,
        "listed": len(listed),
        "notes": len(notes.all()),
        "findings": found,
        "summary": [summary.samples, summary.checked],
        "said": [
            *run.snapshot.problems,
            *(f"{bad.file}:{bad.line}: {bad.reason}" for bad in run.snapshot.bad_lines),
            *notes.problems,
            *logged.texts,
        ],
    }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    messages = Messages()
    logging.getLogger().addHandler(messages)
    for name in sys.argv[1:]:
        print(json.dumps(opened(Path(name), messages)), flush=True)
