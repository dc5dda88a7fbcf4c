"""Converts dumps of slime and miles (``--dump-details DIR``) to native lines: ``rlpanel convert slime DIR``.

``rollout_data/{id}.pt`` holds samples. slime's ``train_data/{id}.pt`` holds the arrays that training computed
for them, joined on ``rollout_position``; miles writes ``train_data/{id}_{rank}.pt`` with the columns of one
rank, joined on the sample's index. Its ``trajectory/{id}.jsonl`` holds the conversations, by the same index.
The pickles are pickles, which can run code when they are loaded. They are
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
from types import MappingProxyType
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
        name, talks = f"{path.stem}.jsonl", folder / "trajectory" / f"{path.stem}.jsonl"
        trains = _train_files(folder / "train_data", path.stem)
        newest = max(part.stat().st_mtime for part in (path, talks, *trains) if part.exists())
        written = target.status(name)
        if written is not None and stat.S_ISREG(written.st_mode) and written.st_mtime >= newest:
            kept += 1
            continue
        rollout = _load(path, trusted)
        if not isinstance(rollout.get("samples"), list):
            raise RLPanelError(f"{path} has no list of samples; is it a dump of slime or miles?")
        trained = {"samples": [each for part in trains for each in trained_samples(_load(part, trusted))]}
        made = rows(rollout, trained, path.name, _conversations(talks))
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in made]
        # The file is replaced atomically, so a reader that follows the folder never sees half a step.
        target.replace(name, "".join(f"{line}\n" for line in lines).encode())
        files, samples = files + 1, samples + len(lines)
    return Converted(files, samples, kept)


def _train_files(folder: Path, rollout: str) -> list[Path]:
    """Return the files with what training computed for a rollout: slime's, or one of each rank of miles."""
    of_ranks = (path for path in folder.glob(f"{rollout}_*.pt") if path.stem[len(rollout) + 1 :].isdecimal())
    whole = folder / f"{rollout}.pt"
    return [whole] if whole.exists() else sorted(of_ranks)


def trained_samples(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what training computed for each sample: slime's list, or the columns of one rank of miles.

    A part of a sequence under context parallelism is left out: it has fewer values than the response.
    """
    if isinstance(dump.get("samples"), list):
        return list(dump["samples"])
    columns = dump.get("rollout_data")
    if not isinstance(columns, dict) or int(dump.get("cp_size") or 1) > 1:
        return []
    indices = columns.get("sample_indices")
    if not isinstance(indices, (list, tuple)):
        return []
    per_sample = {
        key: values
        for key, values in columns.items()
        if isinstance(values, (list, tuple)) and len(values) == len(indices)
    }
    return [
        {"sample_index": index} | {key: values[at] for key, values in per_sample.items()}
        for at, index in enumerate(indices)
    ]


def _conversations(path: Path) -> dict[Any, dict[str, Any]]:
    """Return the lines of miles' conversations by the sample's index; empty without the file."""
    if not path.exists():
        return {}
    found = (json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip())
    return {line["sample_index"]: line for line in found if isinstance(line.get("messages"), list)}


def _load(path: Path, trusted: bool) -> dict[str, Any]:
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
    if not isinstance(dump, dict):
        raise RLPanelError(f"{path} holds no object; is it a dump of slime or miles?")
    return dump


def _version(torch: Any) -> tuple[int, ...]:
    """Return the first two numbers of torch's version; zeros if it has none."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def rows(
    rollout: Mapping[str, Any],
    trained: Mapping[str, Any],
    name: str,
    conversations: Mapping[Any, Mapping[str, Any]] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Yield the native lines of a rollout.

    Parameters
    ----------
    rollout, trained : mapping
        Contents of the two files; ``trained`` is empty if the samples were not trained on yet.
    name : str
        The file's name, which gives the step and the split.
    conversations : mapping, optional
        Lines of miles' conversations by the sample's index.
    """
    match = _NAME.fullmatch(name)
    number = int(match[2]) if match else rollout.get("rollout_id")
    by_position = {sample.get("rollout_position"): sample for sample in trained.get("samples", [])}
    by_index = {sample.get("sample_index"): sample for sample in trained.get("samples", [])}
    samples = rollout["samples"]
    for position, (sample, fields) in enumerate(zip(samples, sample_rows(samples), strict=True)):
        row = {"step": rollout.get("rollout_id", number)} | fields
        index = sample.get("index")
        computed = by_position.get(position) or (by_index.get(index) if index is not None else None) or {}
        row |= array_fields(computed, int(sample.get("response_length") or 0))
        row |= _conversation(conversations.get(index))
        if match and match[1]:
            row["split"] = "eval"
        yield row


def _conversation(line: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the messages of a sample, divided after the logged prompt if they begin with it."""
    if line is None:
        return {}
    messages, prompt = line["messages"], line.get("prompt")
    if not isinstance(prompt, list) or prompt != messages[: len(prompt)]:
        return {"messages": messages}
    return {"messages": messages, "prompt_messages": len(prompt)}
