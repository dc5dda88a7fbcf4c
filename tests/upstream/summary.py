"""What rlpanel reads of a written run, in short: counts, means, columns, and keys that are not read."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rlpanel
from rlpanel.metrics.engine import column_info

#: Keys of a JSON line, from the outermost one; items of a list have the key ``[]``.
Keys = tuple[str, ...]

#: Nothing deeper is compared: it belongs to the environment.
DEPTH = 5

#: Files that rlpanel's own recorder wrote, and files beside the rollouts.
_OURS = ("rollout_data_rank_", "run.json", "scalars", "trainer_state")

#: Columns that rlpanel computes: a new metric is not a change of the trainer's.
_COMPUTED = {name for metric in column_info.visible_metrics() for name in metric.columns.values()}

#: Fields of a sample that say where its line is, or keep what was not understood.
_PLACE = frozenset({"uid", "file", "line", "offset", "extra"})


def summary(folder: Path) -> dict[str, Any]:
    """Return what is read of the runs below a folder, and the keys of their files.

    ``keys`` are those that appear in the files; ``not read`` are those of them that change nothing of what is
    shown, whether they are left out or have another value.
    """
    found = {info.name: _of_run(folder / info.name) for info in rlpanel.discover(folder)}
    keys = sorted({path for file in _files(folder) for path in _paths(file)})
    shown = _shown(folder)
    unread = [".".join(path) for path in keys if not _is_read(folder, path, shown)]
    return {"runs": found, "keys": [".".join(path) for path in keys], "not read": unread}


def _of_run(folder: Path) -> dict[str, Any]:
    with rlpanel.open_run(folder, follow=False) as run:
        splits = {name: _of_split(run.split(name)) for name in run.splits}
        return {"bad lines": len(run.errors), "unread files": len(run.unread), "splits": splits}


def _of_split(run: rlpanel.Run) -> dict[str, Any]:
    frame = run.samples()
    samples = [run.sample(uid) for uid in frame["uid"]]
    # `time` is the moment at which rlpanel's recorder wrote a row.
    logged = sorted(set(frame.columns) - _COMPUTED - {"uid", "line", "rank", "time"})
    means = {
        name: _rounded(frame[name].mean()) for name in logged if pd.api.types.is_numeric_dtype(frame[name])
    }
    arrays: dict[str, int] = {}
    for sample in samples:
        for name, array in sample.arrays().items():
            arrays[name] = arrays.get(name, 0) + len(array)
    return {
        "samples": len(frame),
        "steps": {str(step): int(count) for step, count in frame.groupby("step").size().items()},
        "columns": logged,
        "means": means,
        "values of arrays": arrays,
        "messages": sum(len(sample.messages) for sample in samples),
        "letters": sum(len(sample.prompt or "") + len(sample.response or "") for sample in samples),
    }


def _rounded(number: float) -> float | None:
    return None if math.isnan(number) else round(float(number), 6)


def _files(folder: Path) -> list[Path]:
    kinds = (".jsonl", ".json", ".parquet")
    found = [path for path in folder.rglob("*") if path.suffix in kinds]
    return sorted(path for path in found if not path.name.startswith(_OURS))


def _documents(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        return list(pd.read_parquet(path).to_dict("records"))
    text = path.read_text("utf-8")
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def _write(path: Path, documents: list[Any]) -> None:
    if path.suffix == ".parquet":
        pd.DataFrame(documents).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")


def _paths(path: Path) -> set[Keys]:
    return {keys for document in _documents(path) for keys in _keys(document)}


def _keys(value: Any, above: Keys = ()) -> Iterator[Keys]:
    if isinstance(value, dict) and len(above) < DEPTH:
        for key, item in value.items():
            yield (*above, key)
            yield from _keys(item, (*above, key))
    elif isinstance(value, list) and len(above) < DEPTH:
        for item in value:
            if isinstance(item, dict):
                yield from _keys(item, (*above, "[]"))


def _is_read(folder: Path, keys: Keys, shown: str) -> bool:
    """Return whether another value of a key, or its absence, changes what is shown."""
    return any(shown != _shown_if(folder, keys, change) for change in (_without, _changed))


def _shown_if(folder: Path, keys: Keys, change: Any) -> str:
    with tempfile.TemporaryDirectory() as root:
        copy = Path(shutil.copytree(folder, Path(root) / folder.name))
        for path in _files(copy):
            if keys in _paths(path):
                documents = _documents(path)
                for document in documents:
                    _apply(document, keys, change)
                _write(path, documents)
        return _shown(copy)


def _apply(value: Any, keys: Keys, change: Any) -> None:
    """Change the value of a key in an object, and in all items of lists on the way to it."""
    first, rest = keys[0], keys[1:]
    if first == "[]":
        for item in value if isinstance(value, list) else []:
            _apply(item, rest, change)
    elif isinstance(value, dict) and first in value:
        if rest:
            _apply(value[first], rest, change)
        else:
            change(value, first)


def _without(owner: dict[str, Any], key: str) -> None:
    del owner[key]


def _changed(owner: dict[str, Any], key: str) -> None:
    owner[key] = _other(owner[key])


def _other(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float | np.number):
        return value + 1
    if isinstance(value, str):
        return f"{int(value) + 1}" if value.isdigit() else f"{value}x"
    if isinstance(value, list):
        return [_other(item) for item in value] or [1]
    return {key: _other(item) for key, item in value.items()} or {"x": 1}


def _shown(folder: Path) -> str:
    """Return all that is shown of the runs below a folder, as text."""
    parts = []
    for info in rlpanel.discover(folder):
        with rlpanel.open_run(folder / info.name, follow=False) as run:
            parts += [info.name, run.errors.to_csv(), run.unread.to_csv(), run.scalars.to_csv()]
            for name in run.splits:
                shown = run.split(name)
                frame = shown.samples()
                samples = [shown.sample(uid) for uid in frame["uid"]]
                parts += [name, frame.drop(columns=["uid", "line"]).to_csv()]
                parts += [repr(_fields(sample)) for sample in samples]
    return "\n".join(parts)


def _fields(sample: rlpanel.Sample) -> list[Any]:
    return [
        (name, value.tolist() if isinstance(value, np.ndarray) else value)
        for name, value in vars(sample).items()
        if name not in _PLACE
    ]
