"""Lines that stress a reader: memory and time for each, and the message about it.

    python -m tests.bench.hostile [CASE ...]

Each case has its own folder and is read by its own process in two parts: until its lines are rows or bad
lines, then one sample in full, as after a click. Memory is the peak above the process's memory before.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import bombs
from tests.factories import line

LOG = "rollout_data_rank_0.jsonl"
GIGABYTE = 1 << 30
START = b'{"step": 1, "prompt": "p", "response": "r", '


def empty_gigabyte(path: Path) -> None:
    """A sparse gigabyte of zeros, as a crashed machine leaves it."""
    with path.open("wb") as file:
        file.write(line(1))
        file.seek(GIGABYTE, 1)
        file.write(b"\n" + line(1, index=1))


def _written(parts: Iterator[bytes], *, around: bytes = line(1)) -> Callable[[Path], None]:
    """Return a function that writes these bytes between two valid lines."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.write(around)
            file.writelines(parts)
            file.write(around)

    return write


def _text(size: int) -> Iterator[bytes]:
    yield START + b'"ref_response": "'
    for _ in range(size >> 20):
        yield b"never ends " * ((1 << 20) // 11)
    yield b'"}\n'


def _items(head: bytes, item: bytes, size: int, tail: bytes) -> Iterator[bytes]:
    yield head
    many = item * ((1 << 20) // len(item))
    for _ in range(size // len(many)):
        yield many
    yield tail + b"\n"


def _keys(count: int, value: str = "1") -> bytes:
    return ", ".join(f'"k{at}": {value}' for at in range(count)).encode()


def _columns(samples: int, columns: int) -> Iterator[bytes]:
    yield b'{"step": [' + b",".join([b"1"] * samples) + b"]"
    for at in range(columns):
        name = ("prompt", "completion")[at] if at < 2 else f"c{at}"
        yield f', "{name}": ['.encode() + b",".join([b"0"] * samples) + b"]"
    yield b"}\n"


def _many_lines() -> Iterator[bytes]:
    for at in range(2000):
        yield START + ", ".join(f'"n{at}_{key}": 1' for key in range(500)).encode() + b"}\n"


LINE = 62 << 20
CASES: dict[str, Callable[[Path], None]] = {
    "1 GB of nothing in one line": empty_gigabyte,
    "1 GB of text in one line": _written(_text(GIGABYTE)),
    "1 GB without a newline": _written(_items(b"", b"x", GIGABYTE, b"")),
    "a text of 62 MB": _written(_text(LINE)),
    "62 MB of logprobs": _written(_items(START + b'"logprobs": [', b"-0.1234,", LINE, b"0]}")),
    "62 MB of nulls": _written(_items(START + b'"logprobs": [', b"null,", LINE, b"0]}")),
    "62 MB of empty tokens": _written(_items(START + b'"response_tokens": [', b'"",', LINE, b'""]}')),
    "62 MB of empty lists, unknown": _written(_items(START + b'"x": [', b"[],", LINE, b"[]]}")),
    "62 MB of NaN": _written(_items(START + b'"logprobs": [', b"NaN,", LINE, b"0]}")),
    "1,000,000 keys": _written(iter([START, _keys(10**6), b"}\n"])),
    "1,000,000 rewards": _written(iter([START, b'"rewards": {', _keys(10**6), b"}}\n"])),
    "1,000,000 keys, one NaN": _written(iter([START, b'"x": NaN, ', _keys(10**6), b"}\n"])),
    "30,000 samples of 900 columns in one line": _written(
        _columns(30_000, 900), around=b'{"step": [1], "prompt": ["p"], "completion": ["c"]}\n'
    ),
    "500 new keys in each of 2,000 lines": _written(_many_lines()),
    "a key of 50 MB": _written(iter([START, b'"', b"k" * (50 << 20), b'": 1}\n'])),
    "100,000 lists in each other": _written(iter([START, b'"x": ', b"[" * 10**5, b"]" * 10**5, b"}\n"])),
    "100,000 lists, never closed": _written(iter([START, b'"x": ', b"[" * 10**5, b"\n"])),
    "900 lists in each other": _written(iter([START, b'"x": ', b"[" * 900, b"]" * 900, b"}\n"])),
    "900 lists where numbers belong": _written(
        iter([START, b'"logprobs": ', b"[" * 900, b"]" * 900, b', "y": NaN}\n'])
    ),
    "10 GB in one line, 330 KB as .zst": bombs.blanks_in_a_frame,
    "10 GB in one line, 10 MB as .gz": bombs.blanks_in_a_member,
    "10 GB of blank lines, 330 KB as .zst": bombs.newlines_in_a_frame,
    "10 GB of good lines, 2 MB as .zst": bombs.lines_in_frames,
}


def peak() -> float:
    """Return the peak memory of this process in megabytes.

    On Linux, ``ru_maxrss`` includes the memory of the process that started this one, so it is not used.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.findall(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(folder: Path) -> dict[str, object]:
    """Read the run, then every sample in full."""
    from rlpanel.errors import RLPanelError
    from rlpanel.settings import Reading
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.query.fetch_sample import fetch

    index = RunIndex(folder, "run", Reading(cache=False))
    before, started, slowest = peak(), time.process_time(), 0.0
    index.rescan()
    more = True
    while more:
        turn = time.process_time()
        more = index.read()
        slowest = max(slowest, time.process_time() - turn)
    snapshot = index.snapshot
    found: dict[str, object] = {
        "rows": snapshot.samples,
        "bad": snapshot.bad_count,
        "reasons": [bad.reason[:110] for bad in snapshot.bad_lines[:2]],
        "problems": [problem[:110] for problem in snapshot.problems[:3]],
        "seconds": time.process_time() - started,
        "turn": slowest,
        "memory": peak() - before,
    }
    for row in snapshot.alive_rows[:3].tolist():
        try:
            fetch(index, index.view, row)
        except RLPanelError as error:
            found["fetch"] = str(error)[:110]
    found["clicked"] = peak() - before
    return found


def main() -> None:
    """Write, measure and print each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="parts of their names; all by default")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        sys.stdout.write(json.dumps(measure(Path(given.measure))))
        return
    say = sys.stdout.write
    say("| line | memory added, MB | with a click | CPU s | longest turn | rows, bad | what is said |\n")
    say("|---|---|---|---|---|---|---|\n")
    for name, write in CASES.items():
        if given.cases and not any(part in name for part in given.cases):
            continue
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
            write(Path(folder) / LOG)
            command = [sys.executable, "-m", "tests.bench.hostile", "--measure", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        say(_row(name, done) + "\n")
        sys.stdout.flush()


def _row(name: str, done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        return f"| {name} | died: {done.returncode} {done.stderr[-200:]!r} |"
    found = json.loads(done.stdout)
    said = "; ".join([*found["reasons"], *found["problems"], found.get("fetch", "")]).strip("; ")
    return (
        f"| {name} | {found['memory']:,.0f} | {found['clicked']:,.0f} | {found['seconds']:.2f} | "
        f"{found['turn']:.2f} | {found['rows']}, {found['bad']} | {said} |"
    )


if __name__ == "__main__":
    main()
