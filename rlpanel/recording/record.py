"""`record`: writes a TRL trainer's rollouts to disk, with one line in the training script."""

from __future__ import annotations

import logging
import math
import os
from typing import Any, Protocol

from rlpanel.recording.output_dir import NAME, OUTPUT, SAVE, folder_from_environment, requested_by_environment
from rlpanel.recording.run_metadata import constants_of
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.trainers.trl_callback import RecordingCallback
from rlpanel.recording.trainers.trl_grpo import GroupHook
from rlpanel.recording.trainers.trl_ppo import FrameHook
from rlpanel.recording.trainers.trl_rewards import RewardHook
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")

#: Optimizer steps without a recorded row after which a warning is logged.
PATIENCE = 3
_MARK = "_rlpanel_recording"


class TrainerHook(Protocol):
    """Interface of a hook that takes rows from a trainer."""

    def attach(self) -> str:
        """Install the hook; return a message about fields that rows will lack, or an empty string."""

    def logged(self) -> None:
        """Handle the trainer's log event of a step."""

    def finish(self) -> None:
        """Write the rows that are not complete yet."""


class Recording:
    """A recording that `record` started; leaving its ``with`` block, or `close`, restores the trainer.

    Attributes
    ----------
    writer : RolloutWriter or None
        None if nothing is recorded.
    """

    def __init__(self, trainer: Any = None, writer: RolloutWriter | None = None) -> None:
        self.trainer, self.writer = trainer, writer
        self._patches, self._guard = Patches(), Guard()
        self._hook: TrainerHook | None = None
        if trainer is not None and writer is not None:
            self._attach(writer)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all hooks and write all queued rows; a second call does nothing."""
        if self._hook is None or self.writer is None:
            return
        self._guard("the last step", self._hook.finish)
        self._hook = None
        self._patches.undo()
        self.trainer.remove_callback(self._callback)
        if getattr(self.trainer, _MARK, None) is self:
            delattr(self.trainer, _MARK)
        self.writer.close()

    def _attach(self, writer: RolloutWriter) -> None:
        trainer, self._steps = self.trainer, 0
        algo = _algo(trainer)
        self._main = bool(getattr(trainer.accelerator, "is_main_process", True))
        self._hook, warning = self._attach_hook(algo, writer)
        if self._main:
            writer.constants(**constants_of(trainer, algo), session=writer.session)
            if warning:
                log.warning("rlpanel: %s", warning)
        self._callback = RecordingCallback(
            on_log=self._on_log, on_step_end=self._on_step_end, on_train_end=lambda *_, **__: self._finish()
        )
        trainer.add_callback(self._callback)
        setattr(trainer, _MARK, self)

    def _attach_hook(self, algo: str, writer: RolloutWriter) -> tuple[TrainerHook, str]:
        hook: TrainerHook
        if algo == "ppo":
            hook = FrameHook(self.trainer, writer)
            return hook, hook.attach()
        if missing := GroupHook.missing_method(self.trainer):
            hook = RewardHook(self.trainer, writer, self._patches, self._guard)
            return hook, f"this {type(self.trainer).__name__} has no {missing}: {hook.attach()}"
        hook = GroupHook(self.trainer, writer, self._patches, self._guard)
        return hook, hook.attach()

    def _on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self._hook is not None:
            self._guard("this trainer's rollouts", self._hook.logged)
        if self._main and logs and self.writer is not None:
            self._guard("the scalar log", self.writer.scalars, state.global_step, dict(logs))

    def _on_step_end(self, *_: Any, **__: Any) -> None:
        """Warn, with what to check, if several steps passed without a row."""
        self._steps += 1
        if self.writer is not None and self._steps == PATIENCE + _delay(self.trainer.args):
            self.writer.flush(5.0)
            if not self.writer.written and self._main:
                log.warning(
                    "rlpanel: no rollout was recorded in %d steps. Check that record() was called before "
                    "train(), with the trainer that trains, and that %s is writable (%d dropped, %d failed).",
                    *(self._steps, self.writer.dir, self.writer.dropped, self.writer.failed),
                )

    def _finish(self) -> None:
        if self._hook is not None and self.writer is not None:
            self._guard("the last step", self._hook.finish)
            self.writer.flush()


def _delay(args: Any) -> int:
    """Return the optimizer steps between a generation and its last pass through the loss."""
    micro = getattr(args, "steps_per_generation", None) or 1
    passes = micro * (getattr(args, "num_iterations", None) or 1)
    return math.ceil(passes / (getattr(args, "gradient_accumulation_steps", None) or 1))


def _algo(trainer: Any) -> str:
    """Return grpo, rloo or ppo, by the names of the trainer's classes; empty for other trainers."""
    names = [kind.__name__.lower() for kind in type(trainer).__mro__]
    return next((algo for name in names for algo in ("rloo", "ppo", "grpo") if name == f"{algo}trainer"), "")


def record(trainer: Any, dir: str | os.PathLike[str] | None = None, **settings: Any) -> Recording:
    """Record the rollouts of a TRL trainer while it trains.

    Parameters
    ----------
    trainer : GRPOTrainer, RLOOTrainer (trl 0.29 or newer) or PPOTrainer (up to trl 1.12)
    dir : path, optional
        The run's folder. Without it, ``SAVE_ROLLOUT_DATA=true`` in the environment records into
        ``<output>/rollout_samples/<EXP_NAME>``. ``SAVE_ROLLOUT_DATA=false`` always turns recording off.
    **settings
        See `rlpanel.recording.Options`.

    Returns
    -------
    Recording
        A context manager with a `close` method.

    Examples
    --------
    >>> with rlpanel.record(trainer, "runs/exp1"):
    ...     trainer.train()
    """
    if getattr(trainer, _MARK, None) is not None:
        return Recording()  # the trainer is being recorded already
    if requested_by_environment() is False:
        return Recording()
    folder = dir if dir is not None else folder_from_environment(trainer.args.output_dir)
    if folder is None:
        log.warning(
            "rlpanel: nothing is recorded: give record() a folder, or set %s=true, and %s and %s if needed",
            *(SAVE, NAME, OUTPUT),
        )
        return Recording()
    return Recording(trainer, RolloutWriter(folder, trainer.accelerator.process_index, **settings))
