"""The process that reads and checks runs in the background: what a run uses up, it uses up here.

It is a fresh interpreter, as in `rlpanel.store.backlog.workers`: its memory can be limited, it takes no turn
of the server's threads, and it can be killed. It yields the processor to everything else, and reads nothing
while it is told to pause. It ends with its parent, even if that is killed, because its input is closed then.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rlpanel.errors import describe_error
from rlpanel.findings.check import cached_findings
from rlpanel.queries.read_whole_run import read_once
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.backlog.workers import yield_processor
from rlpanel.store.columns.page_memory import trim_heap
from rlpanel.store.index.run_summary import summary_text
from rlpanel.store.index.summary_store import SummaryStore

try:
    import resource
except ImportError:  # pragma: no cover - Windows
    resource = None  # type: ignore[assignment]


def check_run(path: str, root: str, reading: Reading, go: threading.Event) -> dict[str, str]:
    """Return the summary of a run with its worst finding, or the reason why it could not be checked.

    Parameters
    ----------
    path, root : str
        The run's folder, and the folder up to which settings apply.
    reading : Reading
    go : Event
        Nothing is read while it is not set.
    """
    summaries = SummaryStore()
    index = read_once(Path(path), Path(root), reading, summaries=summaries, pause=go.wait, progress=False)
    try:
        go.wait()
        snapshot = index.snapshot
        if snapshot.unread and not snapshot.samples:
            return {"problem": snapshot.unread[0].reason, "unreadable": "yes"}
        if not snapshot.samples and snapshot.problems:
            return {"problem": snapshot.problems[0], "unreadable": "yes"}
        if not snapshot.samples:
            return {"problem": "it has no samples"}
        cached_findings(index, FindingSettings.from_environment(), time.time())
        summary = summaries.of(index.path)
        if summary.severity is None:
            return {"problem": "it has no complete step"}
        return {"summary": summary_text(summary)}
    finally:
        index.close()


def serve() -> None:
    """Check the runs that arrive on standard input, one JSON object a line, until it is closed.

    ``{"path": ..., "root": ..., "reading": ..., "opened_with": ...}`` asks for a check, which is answered by
    a line; ``{"pause": true}`` or ``false`` is not answered.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    go = threading.Event()
    go.set()
    yield_processor()
    threading.Thread(target=_listen, args=(sys.stdin, requests, go), daemon=True).start()
    while True:
        request = requests.get()
        try:
            limit_memory(request["memory"])
            answer = check_run(request["path"], request["root"], _reading(request), go)
        except MemoryError:
            answer = {"problem": f"it needs more than {request['memory'] >> 20:,} MB of memory"}
        except Exception as error:
            answer = {"problem": describe_error(error)}
        trim_heap()
        try:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(0)


def _listen(requests: TextIO, queued: queue.SimpleQueue[dict[str, Any]], go: threading.Event) -> None:
    for line in requests:
        request = json.loads(line)
        if "pause" in request:
            (go.clear if request["pause"] else go.set)()
        else:
            queued.put(request)
    os._exit(0)  # the parent has ended, or wants this process to end


def reading_values(reading: Reading) -> dict[str, Any]:
    """Return the settings of a reader as a part of a request."""
    values = {name: value for name, value in reading.param.values().items() if name != "name"}
    return {"reading": values | {"jobs": 0}, "opened_with": reading.opened_with}


def _reading(request: Mapping[str, Any]) -> Reading:
    reading = Reading(**request["reading"])
    reading.opened_with.update(request["opened_with"])
    return reading


def limit_memory(size: int) -> None:
    """Let the process have this many bytes of writable memory; only Linux counts them."""
    if resource is not None and sys.platform == "linux":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = size if most == resource.RLIM_INFINITY else min(size, most)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
