"""Converts dumps of slime and miles (``--dump-details DIR``) to native lines: ``rlpanel convert slime DIR``.

``rollout_data/{id}.pt`` holds samples. slime's ``train_data/{id}.pt`` holds the arrays that training computed
for them, joined on ``rollout_position``; miles writes ``train_data/{id}_{rank}.pt`` with the columns of one
rank, joined on the sample's index. Its ``trajectory/{id}.jsonl`` holds the conversations, by the same index.
The pickles are programs. A process with no rights reads them as plain values and tensors, and runs nothing
that they name (`rlpanel.sources.pickles`); torch is not needed. The server never reads them.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlpanel.errors import RLPanelError, RunNotFound
from rlpanel.safe_files import SafeFolder

#: Name of the file of a rollout.
_NAME = re.compile(r"(eval_)?(\d+)\.pt")
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlpanel.sources.pickles import dump_worker; dump_worker.main()"
)
#: Seconds of the wall clock for one rollout, beside one for each megabyte.
_PATIENCE = 300


@dataclass
class Converted:
    """Result of a conversion.

    Attributes
    ----------
    files, samples : int
        Rollouts and samples that were converted.
    kept : int
        Rollouts that are unchanged since an earlier conversion.
    left_out : Counter
        Objects of classes that are not read, by their names; nothing of them ran.
    untrained : int
        Samples without arrays of training in rollouts that have some.
    alone : int
        Samples without a conversation in rollouts that have some.
    """

    files: int = 0
    samples: int = 0
    kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    untrained: int = 0
    alone: int = 0


def convert(folder: Path, out: Path | None = None) -> Converted:
    """Write a native file for each new or changed dump.

    Parameters
    ----------
    folder : Path
        The folder given to ``--dump-details``.
    out : Path, optional
        Output folder, created if missing; by default ``rlpanel`` in ``folder``, which must not be a link.

    Raises
    ------
    RunNotFound
        If the folder holds no dumps.
    RLPanelError
        If a file is damaged or has no samples, or ``out`` cannot be written.
    """
    dumps = sorted(path for path in (folder / "rollout_data").glob("*.pt") if _NAME.fullmatch(path.name))
    if not dumps:
        raise RunNotFound(f"{folder} holds no rollout_data/{{id}}.pt; give the folder of --dump-details")
    try:
        with _target(folder, out) as target:
            return _convert_all(folder, dumps, target)
    except RLPanelError:
        raise
    except OSError as error:
        path = error.filename or out or folder
        raise RLPanelError(f"{path} cannot be written: {error.strerror}") from error


def _target(folder: Path, out: Path | None) -> SafeFolder:
    if out is None:
        with SafeFolder.named(folder) as home:
            return home.subfolder_to_write("rlpanel")
    out.mkdir(parents=True, exist_ok=True)
    return SafeFolder.named(out)


def _convert_all(folder: Path, dumps: list[Path], target: SafeFolder) -> Converted:
    done = Converted()
    for path in dumps:
        name, talks = f"{path.stem}.jsonl", folder / "trajectory" / f"{path.stem}.jsonl"
        trains = _train_files(folder / "train_data", path.stem)
        inputs = [path, *trains, *([talks] if talks.exists() else [])]
        written = target.status(name)
        newest = max(part.stat().st_mtime for part in inputs)
        if written is not None and stat.S_ISREG(written.st_mode) and written.st_mtime >= newest:
            done.kept += 1
            continue
        head, lines = _read(path, trains, [talks] if talks.exists() else [])
        # The file is replaced atomically, so a reader that follows the folder never sees half a step.
        target.replace(name, lines)
        done.files, done.samples = done.files + 1, done.samples + head["samples"]
        done.left_out.update(head["left_out"])
        done.untrained, done.alone = done.untrained + head["untrained"], done.alone + head["alone"]
    return done


def _train_files(folder: Path, rollout: str) -> list[Path]:
    """Return the files with what training computed for a rollout: slime's, or one of each rank of miles."""
    of_ranks = (path for path in folder.glob(f"{rollout}_*.pt") if path.stem[len(rollout) + 1 :].isdecimal())
    whole = folder / f"{rollout}.pt"
    return [whole] if whole.exists() else sorted(of_ranks)


def _read(path: Path, trained: list[Path], talks: list[Path]) -> tuple[dict[str, Any], bytes]:
    """Return counts and lines of a rollout, from a process that reads its pickles."""
    request = {
        "rollout": str(path.absolute()),
        "trained": [str(each.absolute()) for each in trained],
        "talks": [str(each.absolute()) for each in talks],
    }
    size = sum(each.stat().st_size for each in (path, *trained, *talks))
    try:
        process = subprocess.run(
            # -P: modules in the working directory must not shadow installed ones.
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=_PATIENCE + size / (1 << 20),
        )
    except subprocess.TimeoutExpired as error:
        raise RLPanelError(f"{path} cannot be read: it takes too long") from error
    head, found, lines = process.stdout.partition(b"\n")
    if not found:
        raise RLPanelError(
            f"{path} cannot be read: the process that reads it ended ({process.returncode}); it needs more "
            "time or memory than its size allows"
        )
    counts = json.loads(head)
    if "error" in counts:
        raise RLPanelError(f"{path}: {counts['error']}")
    return counts, lines
