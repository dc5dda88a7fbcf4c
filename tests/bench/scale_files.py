"""Measures runs of many small files: processor time to read one once, and to follow one line of it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

#: Numbers of files, and lines that are followed one by one.
FILES, LINES = (2_000, 4_000, 8_000, 16_000, 30_000), 20
SAMPLE = {
    "step": 3,
    "prompt": "q",
    "response": "a b c",
    "reward": 0.5,
    "response_tokens": ["a", " b", " c"],
    "logprobs": [-0.1, -0.2, -0.3],
}


def files(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Read runs of one line a file; each doubling should take about twice as long."""
    from rlpanel.api.open_run import open_run
    from rlpanel.store.index.run_index import RunIndex

    line = json.dumps(SAMPLE) + "\n"
    for count in FILES:
        run = folder / str(count)
        run.mkdir()
        for number in range(count):
            (run / f"rollout_{number:06d}.jsonl").write_text(line)
        worked = time.process_time()
        with open_run(run, follow=False) as opened:
            assert opened.snapshot.rows == count
        goal = "< 5 s" if count == 16_000 else ""
        yield f"{count:,} files of a line, read once", f"{time.process_time() - worked:.1f} CPU s", goal
        index = RunIndex(run, "run")
        index.rescan()
        while index.read():
            pass
        path = run / "rollout_000000.jsonl"
        worked = time.process_time()
        for _ in range(LINES):
            with path.open("a") as file:
                file.write(line)
            index.read({str(path)})
        assert index.snapshot.rows == count + LINES
        each = 1e3 * (time.process_time() - worked) / LINES
        yield f"{count:,} files, one of which grew: a round", f"{each:.1f} CPU ms", ""
        shutil.rmtree(run)
