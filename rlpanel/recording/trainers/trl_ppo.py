"""Records rollouts of TRL's PPOTrainer, which exists up to trl 1.12.

The trainer keeps its batch in local variables of ``train()``, so they are read from its stack frame when it
logs a step. That code no longer changes in TRL.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any

from rlpanel.recording.trainers import rollout_rows
from rlpanel.recording.trainers.rollout_rows import decoder, token_texts, tokenizer_of
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
    """Hook that takes rows from the stack frame of a running ``train()``."""

    def __init__(self, trainer: Any, writer: RolloutWriter) -> None:
        self.trainer, self.writer = trainer, writer
        self._tokenizer = tokenizer_of(trainer.processing_class)
        self._decode = decoder(self._tokenizer)

    def attach(self) -> str:
        """Do nothing: no method is wrapped, and rows lack no field."""
        return ""

    def finish(self) -> None:
        """Do nothing: each row is written when its step is logged."""

    def logged(self) -> None:
        """Write the rows of the step that is being logged."""
        frame = _frame_of(self.trainer)
        if frame is None:
            return  # the log call came from outside train()
        batch = _locals_of(frame)
        if missing := [name for name in _LOCALS if name not in batch]:
            raise KeyError(f"train() has no variable {missing[0]!r}; only scalars are recorded")
        self._write({name: rollout_rows.to_host(values) for name, values in batch.items()})

    def _write(self, batch: dict[str, Any]) -> None:
        width = batch["responses"].shape[1]
        batch["token_rewards"] = batch.pop("rewards")
        ends = batch["contain_eos_token"].tolist()
        scores, lasts = batch["scores"].tolist(), batch["sequence_lengths"].tolist()
        state = self.trainer.state
        for index, last in enumerate(lasts):
            length = min(int(last) + 1, width)
            ids = batch["responses"][index, :length].tolist()
            row: dict[str, Any] = {"step": state.global_step, "episode": getattr(state, "episode", None)}
            row |= self._texts(batch["queries"][index].tolist(), ids)
            row |= rollout_rows.token_fields(ids, self._decode, token_texts)
            row |= {name: batch[name][index, :length] for name in _TOKENWISE}
            row |= {"reward": scores[index], "response_length": length, "truncated": not ends[index]}
            if 0 < length < width:
                row |= _fold_terminal(batch, index, length)
            self.writer.put(row)

    def _texts(self, query: list[int], ids: list[int]) -> dict[str, Any]:
        pad, decode = self._tokenizer.pad_token_id, self._decode
        prompt = [token for token in query if token != pad]
        special = set(getattr(self._tokenizer, "all_special_ids", []))
        response = [token for token in ids if token not in special]
        return {"prompt": lambda: decode(prompt), "response": lambda: decode(response)}


def _fold_terminal(batch: dict[str, Any], index: int, length: int) -> dict[str, Any]:
    """Add the reward of the slot after the last token, where TRL puts the score, to the last token.

    The slot's own reward and value are returned as well: GAE returns are exact only with them.
    """
    terminal, value = batch["token_rewards"][index, length].item(), batch["values"][index, length].item()
    rewards = batch["token_rewards"][index, :length].clone()
    rewards[-1] += terminal
    return {"token_rewards": rewards, "terminal_reward": terminal, "terminal_value": value}


def _frame_of(trainer: Any) -> FrameType | None:
    """Return the stack frame of this trainer's ``train()``, or None if it is not running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        is_loop = frame.f_code.co_name == "train" and "query_responses" in frame.f_code.co_varnames
        if is_loop and frame.f_locals.get("self") is trainer:
            return frame
        frame = frame.f_back
    return None


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the frame's variables that rows are made of."""
    batch = {name: value for name in _LOCALS if (value := frame.f_locals.get(name)) is not None}
    if sys.version_info < (3, 13):
        # Before Python 3.13 the frame keeps this dict, and so a batch that train() has already released.
        frame.f_locals.clear()
    return batch
