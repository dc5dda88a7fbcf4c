"""Writes the rows of hooks that a trainer calls as functions or as objects that it makes itself.

Fields of a response whose texts are decoded on the writer's thread.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rlpanel.recording.output_folder import folder_of_hook
from rlpanel.recording.trainers.patching import Guard
from rlpanel.recording.trainers.rollout_rows import decoder, token_texts
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")


class HookRows:
    """Rows of one trainer's hooks: errors are logged once, and the writer is made when it is first needed.

    Attributes
    ----------
    dir : path, optional
        The run's folder; by default `folder_of_hook` of the trainer's output folder.
    """

    def __init__(self, dir: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self.dir = dir
        self._settings = settings
        self._guard = Guard()
        self._writers: dict[Path, RolloutWriter] = {}

    def write(
        self,
        part: str,
        output: str | os.PathLike[str] | None,
        rows: Callable[..., Iterable[dict[str, Any]]],
        *args: Any,
    ) -> None:
        """Write ``rows(*args)``, each with its ``step``; an error ends the recording of this part only.

        Parameters
        ----------
        part : str
            Name of what is recorded, for messages.
        output : path, optional
            The training's output folder.
        rows : callable
        """
        self._guard(part, self._write, output, rows, *args)

    def flush(self) -> None:
        """Wait until all rows so far are on disk."""
        for writer in self._writers.values():
            writer.flush()

    def _write(
        self, output: str | os.PathLike[str] | None, rows: Callable[..., Iterable[dict[str, Any]]], *args: Any
    ) -> None:
        folder = Path(self.dir) if self.dir is not None else folder_of_hook(output)
        if folder is None:
            return
        writer = self._writer(folder)
        for row in rows(*args):
            writer.write(**row)

    def _writer(self, folder: Path) -> RolloutWriter:
        if folder not in self._writers:
            self._writers[folder] = RolloutWriter(folder, **self._settings)
            # A worker's working folder is often a temporary one: the log should say where the rows are.
            log.warning("rlpanel: rollouts are recorded in %s", folder.resolve())
        return self._writers[folder]


class HookTexts:
    """Decodes with a copy of a trainer's tokenizer, because the trainer goes on using its own."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = copy.deepcopy(tokenizer)
        self._decode = decoder(tokenizer)

    def fields(
        self,
        prompt: Sequence[int],
        ids: Sequence[int],
        mask: Sequence[int],
        written: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """Return prompt, response, its tokens and their loss mask, if it masks any.

        Parameters
        ----------
        prompt, ids : sequence of int
            Token ids of the prompt and of the response.
        mask : sequence of int
            1 for each token of the response that takes part in the loss.
        written : sequence of int, optional
            1 for each token that the policy wrote, of which the response's text is made; by default ``mask``.
        """
        own = [token for token, bit in zip(ids, written or mask, strict=True) if bit] or ids
        row: dict[str, Any] = {
            "prompt": partial(self._decode, list(prompt)),
            "response": partial(self._tokenizer.decode, list(own), skip_special_tokens=True),
            "response_token_ids": list(ids),
            "response_tokens": partial(token_texts, self._decode, list(ids)),
        }
        return row if all(mask) else row | {"loss_mask": list(mask)}
