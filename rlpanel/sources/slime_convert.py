"""Converts slime's dumps (``--dump-details DIR``) to native lines, for ``rlpanel convert slime DIR``.

``rollout_data/{id}.pt`` holds samples, and ``train_data/{id}.pt`` holds the arrays that training computed
for them, joined on ``rollout_position``. Both are pickles, which can run code when they are loaded. They are
loaded as plain tensors and containers only, unless the user says that the files are trusted. The server
never loads them.
"""

from __future__ import annotations

import importlib
import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpanel.errors import RLPanelError, RunNotFound
from rlpanel.safe_files import SafeFolder
from rlpanel.slime_samples import array_fields, sample_rows

#: First version of torch whose ``weights_only=True`` has no known way to run code of the file.
SAFE_TORCH = (2, 10)
_NAME = re.compile(r"(eval_)?(\d+)\.pt")


@dataclass(frozen=True)
class Converted:
    """Result of a conversion; ``kept`` counts files that are unchanged since an earlier conversion."""

    files: int
    samples: int
    kept: int


def convert(folder: Path, out: Path | None = None, *, trusted: bool = False) -> Converted:
    """Write a native file for each new or changed dump.

    Parameters
    ----------
    folder : Path
        The folder given to ``--dump-details``.
    out : Path, optional
        Output folder, created if missing; by default ``rlpanel`` in ``folder``, which must not be a link.
    trusted : bool
        Load pickles that may run code.

    Raises
    ------
    RunNotFound
        If the folder holds no dumps.
    RLPanelError
        If torch is not installed, a file needs trust, or ``out`` cannot be written.
    """
    dumps = sorted(path for path in (folder / "rollout_data").glob("*.pt") if _NAME.fullmatch(path.name))
    if not dumps:
        raise RunNotFound(f"{folder} holds no rollout_data/{{id}}.pt; give the folder of --dump-details")
    try:
        with _target(folder, out) as target:
            return _convert_all(folder, dumps, target, trusted=trusted)
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


def _convert_all(folder: Path, dumps: list[Path], target: SafeFolder, *, trusted: bool) -> Converted:
    files = samples = kept = 0
    for path in dumps:
        train, name = folder / "train_data" / path.name, f"{path.stem}.jsonl"
        newest = max(part.stat().st_mtime for part in (path, train) if part.exists())
        written = target.status(name)
        if written is not None and stat.S_ISREG(written.st_mode) and written.st_mtime >= newest:
            kept += 1
            continue
        rollout = _load(path, trusted=trusted)
        trained = _load(train, trusted=trusted) if train.exists() else {}
        lines = [
            json.dumps(row, ensure_ascii=False, default=str) for row in rows(rollout, trained, path.name)
        ]
        # The file is replaced atomically, so a reader that follows the folder never sees half a step.
        target.replace(name, "".join(f"{line}\n" for line in lines).encode())
        files, samples = files + 1, samples + len(lines)
    return Converted(files, samples, kept)


def _load(path: Path, *, trusted: bool) -> dict[str, Any]:
    """Load a dump on the CPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise RLPanelError(
            "slime's dumps are torch files: install torch to convert them (pip install torch)"
        ) from error
    if not trusted and _version(torch) < SAFE_TORCH:
        raise RLPanelError(
            f"torch {torch.__version__} can run code of a dump even if it is told not to (CVE-2025-32434, "
            f"CVE-2026-24747): install torch {'.'.join(map(str, SAFE_TORCH))} or newer; if you trust who "
            "wrote the dumps, add --trusted"
        )
    try:
        dump = torch.load(path, map_location="cpu", weights_only=not trusted)
    except Exception as error:  # torch raises many kinds
        remedy = "" if trusted else "; if you trust who wrote it, add --trusted, which lets it run code"
        raise RLPanelError(f"{path} cannot be read: {str(error).splitlines()[0][:160]}{remedy}") from error
    if not isinstance(dump, dict) or not isinstance(dump.get("samples"), list):
        raise RLPanelError(f"{path} has no list of samples; is it a dump of slime?")
    return dump


def _version(torch: Any) -> tuple[int, ...]:
    """Return the first two numbers of torch's version; zeros if it has none."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def rows(rollout: Mapping[str, Any], trained: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the native lines of a rollout.

    Parameters
    ----------
    rollout, trained : mapping
        Contents of the two files; ``trained`` is empty if the samples were not trained on yet.
    name : str
        The file's name, which gives the step and the split.
    """
    match = _NAME.fullmatch(name)
    number = int(match[2]) if match else rollout.get("rollout_id")
    by_position = {sample.get("rollout_position"): sample for sample in trained.get("samples", [])}
    for position, fields in enumerate(sample_rows(rollout["samples"])):
        row = {"step": rollout.get("rollout_id", number)} | fields
        row |= array_fields(by_position.get(position, {}))
        if match and match[1]:
            row["split"] = "eval"
        yield row
