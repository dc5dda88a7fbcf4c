"""A run as people use it from Python: follow a folder, ask for tables and samples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import RLPanelError, SettingError
from rlpanel.metrics.engine.compute import text_columns
from rlpanel.schema import Sample
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.columns.run_table import OLDER
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch, fetch_texts
from rlpanel.store.query.notes import Notes
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.terminal_progress import TerminalProgress


@dataclass(frozen=True)
class Stats:
    """What indexing a run came to."""

    rows: int
    bad_lines: int
    blank_lines: int
    steps: int
    ranks: int
    files: int
    bytes: int


class Run:
    """A run's samples and statistics.

    Made by `open_run`. Tables are pandas; each call reads the newest snapshot.
    """

    def __init__(self, index: RunIndex, service: Reader | None = None) -> None:
        self._index = index
        self._service = service
        self._split = ""
        self._whole: Run | None = None
        self._parts: dict[str, Run] = {}

    @property
    def path(self) -> AnyPath:
        """The run's folder."""
        return self._index.path

    @property
    def index(self) -> RunIndex:
        """What views read samples from."""
        return self._index

    def listen(self, listener: Callable[[RunIndex | None], None]) -> Callable[[], None]:
        """Hear of what is read, as `Reader.listen`; nothing is heard of a run that nobody follows."""
        service = self._followed_by
        return service.listen(listener) if service is not None else lambda: None

    @property
    def _followed_by(self) -> Reader | None:
        return (self._whole or self)._service

    @property
    def name(self) -> str:
        """The run's name."""
        return self._index.name

    @property
    def view(self) -> RunView:
        """The newest snapshot with what is computed from it."""
        return self._index.view.in_split(self._split)

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot: the data as they are stored."""
        return self.view.snapshot

    @property
    def splits(self) -> dict[str, int]:
        """Samples that count in each split, training first."""
        return self.snapshot.splits

    def split(self, name: str) -> Run:
        """The run with the samples of another split: ``run.split("eval").steps``.

        It is closed with the run that it was asked of.

        Raises
        ------
        SettingError
            If no sample is of this split.
        """
        if name not in self.splits:
            raise SettingError(
                f"no split {name!r} in {self.name}; there is {', '.join(self.splits) or 'none'}"
            )
        whole = self._whole or self
        if name not in whole._parts:
            part = whole._parts[name] = Run(self._index)
            part._split, part._whole = name, whole
        return whole._parts[name]

    @property
    def steps(self) -> pd.DataFrame:
        """A row a step: ``step``, ``samples``, ``reward_mean``, ``reward_std``, ``kl_k3_mean``, ..."""
        return self.view.step_frame()

    def quantiles(self, column: str, q: Sequence[float] = (0.25, 0.5, 0.75)) -> pd.DataFrame:
        """A row a step, a column a quantile: exact, of all that count; KeyError if nobody logged it."""
        view = self.view
        found = view.quantiles(column, tuple(q))
        return pd.DataFrame(
            found.T, pd.Index(view.snapshot.steps.values, name="step"), pd.Index(q, name=column)
        )

    def histogram(self, column: str, bins: int = 64) -> pd.DataFrame:
        """A row a step, a column an interval: how many samples' numbers lie in it, of all that count.

        Parameters
        ----------
        column : str
        bins : int
            At most as many intervals; each is a power of two wide and closed on the left.

        Raises
        ------
        KeyError
            If nobody logged the column.
        """
        found = self.view.histogram(column, bins)
        intervals = pd.IntervalIndex.from_breaks(found.edges, closed="left", name=column)
        return pd.DataFrame(found.counts, pd.Index(found.steps, name="step"), intervals)

    @property
    def notes(self) -> pd.DataFrame:
        """A row a sample that readers left a tag or a note on: ``uid``, ``tag``, ``note``, ``time``."""
        return Notes(self.path).frame()

    @property
    def scalars(self) -> pd.DataFrame:
        """The trainer's own log, a row a step: ``step``, ``loss``, ``learning_rate``, ...

        Under the trainer's names, from the files beside the run (``scalars.jsonl``, ``metrics.jsonl``,
        ``trainer_state.json``, TensorBoard's events); NaN where a step lacks one.
        """
        return self.snapshot.scalars.frame()

    def samples(self, step: int | None = None, *, text: bool = False, older: bool = False) -> pd.DataFrame:
        """A row a sample: ``uid``, ``step``, ``rank``, ``group``, ``reward``, ``kl_k3_mean``, ...

        Parameters
        ----------
        step : int, optional
            Only this step; all by default.
        text : bool
            Add the texts (``prompt``, ``response``, ...), read back from the files, and how repetitive the
            responses are (``zlib_ratio``, ``distinct_4``).
        older : bool
            Add the samples of older attempts, which a restart of the job replaced; the column ``older``
            tells which they are.
        """
        view = self.view
        snapshot = view.snapshot
        rows = snapshot.rows_of(step, older=older)
        frame = view.frame(rows)
        if older:
            frame["older"] = snapshot.state[rows] == OLDER
        if text:
            texts = [self._fetch_texts(snapshot, row) for row in rows.tolist()]
            for name in schema.TEXTS:
                if any(name in found for found in texts):
                    frame[name] = [found.get(name) for found in texts]
            if "response" in frame:
                responses = np.array([found.get("response", "") for found in texts], object)
                frame = frame.assign(**text_columns(responses))
        return frame

    def sample(self, uid: str) -> Sample:
        """One sample, whole.

        Raises
        ------
        SampleNotFound
            If no living row has this uid.
        SourceChanged
            If its bytes are no longer there.
        """
        view = self.view
        return fetch(self._index, view, view.snapshot.row(uid))

    @property
    def errors(self) -> pd.DataFrame:
        """A row a bad line: ``file``, ``line`` (from 1), ``offset`` (bytes), ``reason``."""
        bad = self.snapshot.bad_lines
        names = ("file", "line", "offset", "reason")
        return pd.DataFrame({name: [getattr(line, name) for line in bad] for name in names})

    @property
    def unread(self) -> pd.DataFrame:
        """A row a file or folder that is not read now: ``file``, ``reason``; none if the run is whole."""
        unread = self.snapshot.unread
        return pd.DataFrame({name: [getattr(one, name) for one in unread] for name in ("file", "reason")})

    def stats(self) -> Stats:
        """Rows, bad lines, steps, ranks, files and bytes so far."""
        snapshot = self.snapshot
        return Stats(
            rows=snapshot.samples if self._split else snapshot.all_samples,
            bad_lines=snapshot.bad_count,
            blank_lines=snapshot.blank_count,
            steps=len(snapshot.steps.values),
            ranks=snapshot.ranks,
            files=len(snapshot.files),
            bytes=snapshot.progress.bytes_read,
        )

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> bool:
        """Until what stands on disk is indexed; False if the time ran out before.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no bound by default.
        progress : bool
            Show how far it is on a terminal's stderr.

        Raises
        ------
        RLPanelError
            If the reader failed or was stopped.
        """
        service = self._followed_by
        if service is None:
            return True
        news = threading.Event()
        forget = service.listen(lambda _: news.set())
        deadline = None if timeout is None else time.monotonic() + timeout
        show = TerminalProgress(self.name) if progress else None
        try:
            while not (self.snapshot.version and self.snapshot.progress.caught_up):
                if deadline is not None and time.monotonic() > deadline:
                    return False
                self._check_service(service)
                if show:
                    show(self.snapshot.progress)
                news.wait(0.1)
                news.clear()
            return True
        finally:
            forget()
            if show:
                show.end()

    def _check_service(self, service: Reader) -> None:
        if service.failure or service.stopped:
            raise RLPanelError(f"{self.name} cannot be read: {service.failure or 'the reader was stopped'}")

    def close(self) -> None:
        """Stop following; tables keep their last state."""
        service, self._service = self._service, None
        if service is not None:
            service.close(self._index)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        stats = self.stats()
        bad = f", {stats.bad_lines:,} bad lines" if stats.bad_lines else ""
        return f"<Run {self.name!r}: {stats.rows:,} samples, {stats.steps:,} steps{bad}>"

    def _fetch_texts(self, snapshot: Snapshot, row: int) -> dict[str, str]:
        return fetch_texts(self._index, snapshot, row)
