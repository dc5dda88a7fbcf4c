"""Writes a run as parquet files, one for each part of steps and table, here or on the workers of dask.

::

    OUT/samples/steps-00000001-00000008-00000.parquet
    OUT/tokens/steps-00000001-00000008-00000.parquet
    OUT/_rlpanel.json

All files of a table have one schema. Any engine opens ``OUT/samples/*.parquet``. A file appears under its
name when it is whole, and ``_rlpanel.json`` when all are: without it the dataset is not complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlpanel.dataset.dataset_parts import DatasetPart, Kind, UnreadSamples, token_tables, tokens_schema
from rlpanel.errors import SettingError
from rlpanel.store.backlog.dask_workers import connect
from rlpanel.store.cache.fingerprint import reading_fingerprint

#: Name of the file that says what the dataset holds.
SUMMARY = "_rlpanel.json"
KINDS: tuple[Kind, ...] = ("samples", "tokens")


@dataclass(frozen=True)
class WrittenPart:
    """Rows, bytes and unreadable samples of one written part of a dataset."""

    samples: int = 0
    tokens: int = 0
    bytes: int = 0
    unread: int = 0
    reason: str = ""

    def __add__(self, other: WrittenPart) -> WrittenPart:
        """Return both together, with the first reason."""
        return WrittenPart(
            self.samples + other.samples,
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            self.unread + other.unread,
            self.reason or other.reason,
        )


def write_part(part: DatasetPart, folder: str, kinds: Sequence[Kind], code: str = "") -> WrittenPart:
    """Write the files of a part, and return what they hold.

    Parameters
    ----------
    part : DatasetPart
    folder : str
        Folder of the dataset, which has a folder for each table.
    kinds : sequence of str
    code : str
        Fingerprint of the caller's code, which must be this process's.

    Raises
    ------
    SettingError
        If the folder cannot be written, or this process has another version of rlpanel.
    """
    if code and code != reading_fingerprint():
        raise SettingError("a worker has another version of rlpanel: install the same one everywhere")
    unread, size, tokens = UnreadSamples(), 0, 0
    for kind in kinds:
        schema = part.samples.schema if kind == "samples" else tokens_schema(list(part.arrays))
        tables = [part.samples] if kind == "samples" else token_tables(part, unread)
        file = Path(folder, kind, f"{part.name}.parquet")
        try:
            rows = _write(file, schema, tables)
            size += file.stat().st_size
        except OSError as error:
            raise SettingError(f"{file} cannot be written: {error.strerror or error}") from error
        tokens += rows if kind == "tokens" else 0
    samples = part.samples.num_rows if "samples" in kinds else 0
    return WrittenPart(samples, tokens, size, unread.samples, unread.reason)


def _write(file: Path, schema: Any, tables: Iterable[Any]) -> int:
    """Write tables as row groups of one file; return the number of rows."""
    import pyarrow
    from pyarrow import parquet

    rows, temporary = 0, file.with_name(f".{file.name}.{os.getpid()}")
    # Measured values hardly repeat: to look for repeats takes more time than to write them.
    repeated = [field.name for field in schema if not pyarrow.types.is_floating(field.type)]
    try:
        with parquet.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=repeated) as writer:
            for table in tables:
                writer.write_table(table)
                rows += table.num_rows
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def write_dataset(
    parts: Sequence[DatasetPart],
    folder: Path,
    *,
    run: str,
    kinds: Sequence[Kind] = KINDS,
    scheduler: str = "",
    progress: Callable[[int, int, WrittenPart], object] = lambda done, total, written: None,
) -> WrittenPart:
    """Write the parts of a run into a new or empty folder; an interrupt cancels what is left.

    Parameters
    ----------
    parts : sequence of DatasetPart
    folder : Path
        Workers of a cluster must see it under the same path, as the run's files.
    run : str
        Name of the run, for the summary.
    kinds : sequence of str
        Tables to write.
    scheduler : str
        Address of a dask scheduler; without it this process writes.
    progress : function
        Is called after each part with the number of parts that are done, of all, and what was written.

    Raises
    ------
    SettingError
        If the folder has files or cannot be written.
    ClusterError
        If the cluster cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SettingError(f"{folder} has files; name a new or an empty folder")
        for kind in kinds:
            (folder / kind).mkdir()
    except OSError as error:
        raise SettingError(f"{folder} cannot be written: {error.strerror}") from error
    place, total = str(folder.resolve()), WrittenPart()
    made = (
        _on_cluster(parts, place, kinds, scheduler)
        if scheduler
        else (write_part(part, place, kinds) for part in parts)
    )
    for done, written in enumerate(made, 1):
        total += written
        progress(done, len(parts), total)
    summary = {"run": run, "parts": len(parts), **asdict(total), "tables": list(kinds), "complete": True}
    (folder / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return total


def _on_cluster(
    parts: Sequence[DatasetPart], folder: str, kinds: Sequence[Kind], scheduler: str
) -> Iterator[WrittenPart]:
    """Write parts on the workers of a cluster, a few more at a time than it has threads."""
    from distributed import as_completed

    client, threads = connect(scheduler)
    code, waiting = reading_fingerprint(), iter(parts)
    try:
        running = as_completed()

        def add() -> None:
            part = next(waiting, None)
            if part is not None:
                running.add(client.submit(write_part, part, folder, kinds, code, pure=False))

        for _ in range(2 * threads):
            add()
        for future in running:
            written = future.result()
            future.release()
            add()
            yield written
    finally:
        client.close(timeout=2)  # cancels what has not begun
