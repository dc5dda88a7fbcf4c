"""What the screens show of a run: its curves, findings, samples and one sample, computed on a thread.

It reads through `rlpanel.open_run`, as every other door does: the run is followed, and each answer is of the
newest snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpanel.analysis.text_turns import Conversation, conversation_of
from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.compute import token_values
from rlpanel.queries.findings import findings
from rlpanel.queries.samples import samples
from rlpanel.queries.steps import USUAL, steps
from rlpanel.queries.table import Table
from rlpanel.schema import Sample
from rlpanel.store.snapshot.snapshot import newest_complete_step
from rlpanel.store.snapshot.token_scales import Scale, token_scales
from rlpanel.texts.display_text import decode

#: Last parts of the names of the trainer's scalars that are drawn, if it logged them.
TRAINERS = ("loss", "pg_loss", "policy_loss", "grad_norm", "lr", "learning_rate", "clip_frac", "pg_clipfrac")
#: Most samples of a table; a filter finds others.
MAX_SAMPLES = 200
_NOT_DRAWN = frozenset({"step", "samples", "complete", "episodes"})
#: Characters of a response in the table.
_CHARS = 160


@dataclass(frozen=True)
class RunPicture:
    """A run at one moment.

    Attributes
    ----------
    steps : list of int
    newest : int or None
        The newest complete step.
    curves : dict of str to list of (float or None)
        Values of the main columns at each step.
    units : dict of str to str
    findings : list of dict
        As `rlpanel findings --json` prints them.
    samples : int
    split : str
    read : float
        Share of the bytes on disk that were read, from 0 to 1.
    """

    steps: list[int]
    newest: int | None
    curves: dict[str, list[float | None]]
    units: dict[str, str]
    findings: list[dict[str, Any]]
    samples: int
    split: str
    read: float


@dataclass(frozen=True)
class ShownSample:
    """A sample with what is drawn of it.

    Attributes
    ----------
    sample : Sample
    tokens : list of str
        Display texts of the response's tokens.
    metrics : dict of str to list of float
        Token metrics that have a scale.
    scales : dict of str to (float, float)
        The run's scale of each of these metrics.
    untrained : list of bool
        Tokens that the loss leaves out.
    conversation : Conversation
    numbers : dict of str to float
    """

    sample: Sample
    tokens: list[str]
    metrics: dict[str, list[float]]
    scales: dict[str, Scale]
    untrained: list[bool]
    conversation: Conversation
    numbers: dict[str, float] = field(default_factory=dict)


class RunFeed:
    """A followed run. All methods but `listen` and `close` may take long: call them on a thread.

    Parameters
    ----------
    path : str
        Folder of the run.
    split : str
        Only this split; by default the one that questions are about.
    """

    def __init__(self, path: str, split: str = "") -> None:
        self._opened = open_run(path, wait=False)
        self._split = split

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._opened.name

    @property
    def _run(self) -> Run:
        opened = self._opened
        return opened.split(self._split) if self._split and self._split in opened.splits else opened

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function, on the reader's thread, whenever the run changes; returns how to unsubscribe."""
        index = self._opened.index
        return self._opened.listen(lambda each: changed() if each is index else None)

    def picture(self) -> RunPicture:
        """Return the newest state of the run."""
        data = self._run.data
        table = steps(data)
        drawn = [
            column.name for column in table.columns if column.name not in ("step", "samples", "complete")
        ]
        logged = [name for name in table.about["available"] if name.rpartition("/")[2] in TRAINERS]
        names = [*drawn, *(name for name in logged if name not in drawn)][: len(USUAL) + len(TRAINERS)]
        if names != drawn:
            table = steps(data, columns=names)
        rows, progress = table.rows, data.snapshot.progress
        return RunPicture(
            steps=[row["step"] for row in rows],
            newest=newest_complete_step(data.snapshot, time.time()),
            curves={name: [row[name] for row in rows] for name in names},
            units={column.name: column.unit for column in table.columns},
            findings=findings(data).rows if rows else [],
            samples=data.snapshot.all_samples,
            split=data.snapshot.split,
            read=1.0 if progress.caught_up else progress.fraction,
        )

    def samples(self, step: int | None, filter: str, sort: str) -> Table:
        """Return the samples of a step that pass a filter, with the beginnings of their responses."""
        data = self._run.data
        if step is not None and data.snapshot.steps.position(step) < 0:
            step = None
        return samples(data, step=step, filter=filter, sort=sort, limit=MAX_SAMPLES, text=True, chars=_CHARS)

    def sample(self, uid: str) -> ShownSample:
        """Return one sample with its tokens, its metrics and its conversation."""
        data = self._run.data
        found = data.sample(uid)
        texts: list[str] = []
        if found.response_tokens:
            shown = decode(found.response_tokens, response=found.response, loss_mask=found.loss_mask)
            texts = list(shown.texts)
        scales = token_scales(data.snapshot)
        values = token_values(found.arrays())
        metrics = {name: np.asarray(values[name], float).tolist() for name in values if name in scales}
        mask = found.loss_mask
        return ShownSample(
            sample=found,
            tokens=texts,
            metrics=metrics,
            scales={name: scales[name] for name in metrics},
            untrained=[] if mask is None else (np.asarray(mask) == 0).tolist(),
            conversation=conversation_of(found, texts),
            numbers={name: value for name, value in found.columns.items() if np.isfinite(value)},
        )

    def close(self) -> None:
        """Stop following the run."""
        self._opened.close()


def unit_of(metric: str) -> str:
    """Return the unit of a token metric."""
    return describe(metric).unit
