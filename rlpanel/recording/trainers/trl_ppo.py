"""Rollouts of TRL's PPOTrainer, up to trl 1.12, the last that has one.

It keeps everything in local variables of ``train()``, which is frozen code: they are read from its frame
when it logs a step.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any

from rlpanel.recording.trainers import rows
from rlpanel.recording.trainers.token_text import decoder, token_texts, tokenizer_of
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")

_LOCALS = (
    "queries",
    "responses",
    "logprobs",
    "ref_logprobs",
    "values",
    "rewards",
    "advantages",
    "returns",
    "scores",
    "sequence_lengths",
    "contain_eos_token",
)
_TOKENWISE = ("logprobs", "ref_logprobs", "values", "token_rewards", "advantages", "returns")


class FrameHook:
    """Takes rows from the frame of a running ``train()``."""

    def __init__(self, trainer: Any, writer: RolloutWriter) -> None:
        self.trainer, self.writer = trainer, writer
        self._tokenizer = tokenizer_of(trainer.processing_class)
        self._decode = decoder(self._tokenizer)

    def attach(self) -> str:
        """Nothing to wrap."""
        return ""

    def finish(self) -> None:
        """Nothing is held back."""

    def logged(self) -> None:
        """Write the rows of the step that is being logged."""
        frame = _frame_of(self.trainer)
        if frame is None:
            return  # a log from outside train()
        batch = _locals_of(frame)
        if missing := [name for name in _LOCALS if name not in batch]:
            raise KeyError(f"train() keeps no {missing[0]!r}; only scalars are recorded")
        self._write({name: rows.host(values) for name, values in batch.items()})

    def _write(self, batch: dict[str, Any]) -> None:
        width = batch["responses"].shape[1]
        batch["token_rewards"] = batch.pop("rewards")
        ends = batch["contain_eos_token"].tolist()
        scores, lasts = batch["scores"].tolist(), batch["sequence_lengths"].tolist()
        state = self.trainer.state
        for at, last in enumerate(lasts):
            length = min(int(last) + 1, width)
            ids = batch["responses"][at, :length].tolist()
            row: dict[str, Any] = {"step": state.global_step, "episode": getattr(state, "episode", None)}
            row |= self._texts(batch["queries"][at].tolist(), ids)
            row |= rows.tokens(ids, self._decode, token_texts)
            row |= {name: batch[name][at, :length] for name in _TOKENWISE}
            row |= {"reward": scores[at], "response_length": length, "truncated": not ends[at]}
            if 0 < length < width:
                row |= _fold_terminal(batch, at, length)
            self.writer.put(row)

    def _texts(self, query: list[int], ids: list[int]) -> dict[str, Any]:
        pad, decode = self._tokenizer.pad_token_id, self._decode
        prompt = [token for token in query if token != pad]
        special = set(getattr(self._tokenizer, "all_special_ids", []))
        response = [token for token in ids if token not in special]
        return {"prompt": lambda: decode(prompt), "response": lambda: decode(response)}


def _fold_terminal(batch: dict[str, Any], at: int, length: int) -> dict[str, Any]:
    """TRL puts the score one slot after the last token: bring it to that token, and say what stood there.

    Returns (GAE) come out exactly only with the slot's own value and reward.
    """
    given, value = batch["token_rewards"][at, length].item(), batch["values"][at, length].item()
    rewards = batch["token_rewards"][at, :length].clone()
    rewards[-1] += given
    return {"token_rewards": rewards, "terminal_reward": given, "terminal_value": value}


def _frame_of(trainer: Any) -> FrameType | None:
    """The frame of this trainer's ``train()``, if it is being run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        is_loop = frame.f_code.co_name == "train" and "query_responses" in frame.f_code.co_varnames
        if is_loop and frame.f_locals.get("self") is trainer:
            return frame
        frame = frame.f_back
    return None


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """What is needed of the frame's variables."""
    found = {name: value for name in _LOCALS if (value := frame.f_locals.get(name)) is not None}
    if sys.version_info < (3, 13):
        # Until Python 3.13 the frame keeps this dict, and with it a whole batch after train() let go of it.
        frame.f_locals.clear()
    return found
