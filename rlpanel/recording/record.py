"""`record`: writes a TRL trainer's rollouts to disk, with one line in the training script."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rlpanel.errors import SettingError
from rlpanel.halt_file import HALT, HaltOn, parse_halt_on
from rlpanel.recording.halting import Halting, halting_of
from rlpanel.recording.output_folder import (
    NAME,
    OUTPUT,
    SAVE,
    constants_of,
    folder_from_environment,
    requested_by_environment,
)
from rlpanel.recording.trainers.patching import Guard, Patches, RecordingCallback
from rlpanel.recording.trainers.trl_async import QueueHook
from rlpanel.recording.trainers.trl_grpo import GroupHook
from rlpanel.recording.trainers.trl_ppo import FrameHook
from rlpanel.recording.trainers.trl_rewards import RewardHook
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")

#: Optimizer steps without a recorded row after which a warning is logged.
PATIENCE = 3
_MARK = "_rlpanel_recording"
#: Variable that stands for ``halt_on``: a severity.
HALT_ON = "RLPANEL_HALT_ON"
#: Names of trainers by algorithm, in lower case. Compiled trainers have names such as _UnslothGRPOTrainer.
_NAMES = re.compile(r".*(?P<algo>grpo|rloo)trainer|_*(unsloth)?(?P<ppo>ppo)trainer")


class TrainerHook(Protocol):
    """Interface of a hook that takes rows from a trainer."""

    def attach(self) -> str:
        """Install the hook; return a message about fields that rows will lack, or an empty string."""

    def logged(self) -> None:
        """Handle the trainer's log event of a step."""

    def finish(self) -> None:
        """Write the rows that are not complete yet."""


class NoRollouts:
    """Hook of a trainer whose rollouts cannot be recorded."""

    def attach(self) -> str:
        """Do nothing."""
        return ""

    def logged(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class Recording:
    """A recording that `record` started; leaving its ``with`` block, or `close`, restores the trainer.

    Attributes
    ----------
    writer : RolloutWriter or None
        None if nothing is recorded.
    halted : str
        Why a finding has stopped the training; empty if none has.
    """

    def __init__(
        self, trainer: Any = None, writer: RolloutWriter | None = None, halt_on: HaltOn | None = None
    ) -> None:
        self.trainer, self.writer = trainer, writer
        self.halted, self._halt_on = "", halt_on
        self._halting: Halting | None = None
        self._patches, self._guard = Patches(), Guard()
        self._hook: TrainerHook | None = None
        self._callback: RecordingCallback | None = None
        self._steps: float = 0
        if trainer is None or writer is None:
            return
        try:
            self._attach(writer)
        except Exception as error:  # no error of recording may stop training
            self._give_up(writer, error)

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
        self._end_checks()
        self._detach()
        self.writer.close()

    def _attach(self, writer: RolloutWriter) -> None:
        trainer, algo = self.trainer, _algo(self.trainer)
        self._main = bool(getattr(trainer.accelerator, "is_main_process", True))
        callback = RecordingCallback(
            on_log=self._on_log, on_step_end=self._on_step_end, on_train_end=lambda *_, **__: self._finish()
        )
        trainer.add_callback(callback)
        self._callback = callback
        setattr(trainer, _MARK, self)
        if self._main:
            writer.constants(**constants_of(trainer, algo), session=writer.session)
        self._hook = self._attach_hook(algo, writer)
        if self._halt_on is not None:
            self._halting = self._guard("halting", self._start_checks, writer, self._halt_on)

    def _start_checks(self, writer: RolloutWriter, asked: HaltOn) -> Halting | None:
        """Start the process that checks the run; the main process of a training has one."""
        if self._main and _algo(self.trainer) == "ppo":  # its loop calls callbacks and ignores their control
            _warn(f"{_this(self.trainer)} may not ask whether to stop: halt_on then only logs the reason")
        return halting_of(writer.dir, asked, self.trainer.accelerator, is_main=self._main, warn=_warn)

    def _end_checks(self) -> None:
        halting, self._halting = self._halting, None
        if halting is not None:
            self._guard("the end of the checks", halting.close)

    def _attach_hook(self, algo: str, writer: RolloutWriter) -> TrainerHook:
        """Install the hook that suits the trainer; if it fails, only the trainer's scalars are recorded."""
        try:
            hook, lacking = self._choose_hook(algo, writer)
            lacking += hook.attach()
        except Exception as error:
            self._patches.undo()
            hook, self._steps = NoRollouts(), -math.inf
            lacking = f"no rollouts of {_this(self.trainer)} are recorded, only its scalars: {_named(error)}"
        if lacking:
            self._say(lacking)
        return hook

    def _choose_hook(self, algo: str, writer: RolloutWriter) -> tuple[TrainerHook, str]:
        """Return the hook that suits the trainer, and how a message about missing fields begins."""
        trainer, patches, guard = self.trainer, self._patches, self._guard
        if QueueHook.suits(trainer):
            return QueueHook(trainer, writer, patches, guard), ""
        if algo == "ppo":
            return FrameHook(trainer, writer), ""
        if missing := GroupHook.missing_method(trainer):
            return RewardHook(trainer, writer, patches, guard), f"{_this(trainer)} has no {missing}: "
        return GroupHook(trainer, writer, patches, guard, self._say), ""

    def _say(self, lacking: str) -> None:
        """Log what is not recorded and, in the main process, note it in ``run.json`` for the board."""
        if self._main and self.writer is not None:
            log.warning("rlpanel: %s", lacking)
            self.writer.constants(not_recorded=lacking)

    def _give_up(self, writer: RolloutWriter, error: Exception) -> None:
        """Leave the trainer as it was, since nothing of it can be recorded."""
        log.warning("rlpanel: nothing of %s is recorded: %s", _this(self.trainer), _named(error))
        log.debug("rlpanel", exc_info=True)
        self._hook = self.writer = None
        self._end_checks()
        self._detach()
        writer.close()

    def _detach(self) -> None:
        self._patches.undo()
        if self._callback is not None:
            self._guard("the end of recording", self.trainer.remove_callback, self._callback)
        if getattr(self.trainer, _MARK, None) is self:
            delattr(self.trainer, _MARK)

    def _on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self._hook is not None:
            self._guard("this trainer's rollouts", self._hook.logged)
        if self._main and logs and self.writer is not None:
            self._guard("the scalar log", self.writer.scalars, getattr(state, "global_step", 0), logs)

    def _on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._steps += 1
        self._guard("the number of rows", self._check_rows)
        if self._halting is not None:
            self._guard("halting", self._halt, self._halting, state, control)

    def _halt(self, halting: Halting, state: Any, control: Any) -> None:
        """Let the trainer stop after this step if a finding asks for it, with the reason in its log."""
        reason = halting.reason()
        if not reason:
            return
        control.should_training_stop = True
        if not self.halted and self._main and self.writer is not None:
            step = getattr(state, "global_step", 0)
            log.warning(
                "rlpanel: training stops after step %s: %s (%s)", step, reason, self.writer.dir / HALT
            )
            self.writer.event("training stopped by a finding", step, reason)
        self.halted = reason

    def _check_rows(self) -> None:
        """Warn, with what to check, if several steps passed without a row."""
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
        self._end_checks()


def _delay(args: Any) -> int:
    """Return the optimizer steps between a generation and its last pass through the loss."""
    micro = getattr(args, "steps_per_generation", None) or 1
    passes = micro * (getattr(args, "num_iterations", None) or 1)
    return math.ceil(passes / (getattr(args, "gradient_accumulation_steps", None) or 1))


def _algo(trainer: Any) -> str:
    """Return grpo, rloo or ppo, by the names of the trainer's classes; empty for other trainers.

    The asynchronous trainer has a name of its own: its log averages samples of several steps.
    """
    if QueueHook.suits(trainer):
        return "async_grpo"
    names = (_NAMES.fullmatch(kind.__name__.lower()) for kind in type(trainer).__mro__)
    return next((name["algo"] or name["ppo"] for name in names if name), "")


def generates(trainer: Any) -> bool:
    """Return True for a trainer that samples responses: it is known by name, or has reward functions."""
    return bool(_algo(trainer) or getattr(trainer, "reward_funcs", None))


def _warn(sentence: str) -> None:
    log.warning("rlpanel: %s", sentence)


def _this(trainer: Any) -> str:
    return f"this {type(trainer).__name__}"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def record(
    trainer: Any,
    dir: str | os.PathLike[str] | None = None,
    *,
    halt_on: str | Sequence[str] | Mapping[str, Any] | None = None,
    **settings: Any,
) -> Recording:
    """Record the rollouts of a TRL trainer while it trains.

    A trainer that cannot be recorded, or a folder that cannot be written, never ends the script: one warning
    says what is not recorded. Only a wrong setting raises an error, before training starts.

    Parameters
    ----------
    trainer : GRPOTrainer, RLOOTrainer (trl 0.29 or newer), AsyncGRPOTrainer or PPOTrainer (up to trl 1.12)
        Of other trainers, what their reward functions get is recorded, else their scalars alone.
    dir : path, optional
        The run's folder. Without it, ``SAVE_ROLLOUT_DATA=true`` in the environment records into
        ``<output>/rollout_samples/<EXP_NAME>``. ``SAVE_ROLLOUT_DATA=false`` always turns recording off.
    halt_on : str, sequence of str or dict, optional
        Findings that stop the training: ``"alarm"``, ``"warning"`` for both, names of rules, or
        ``{"severity": "alarm", "rules": ["not_finite"]}``. Off by default. A process of low priority checks
        the run; only a finding that is still found two steps later counts.
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
    asked = parse_halt_on(os.environ.get(HALT_ON, "") if halt_on is None else halt_on)
    try:
        if getattr(trainer, _MARK, None) is not None:
            return Recording()  # the trainer is being recorded already
        if requested_by_environment() is False:
            return Recording()
        folder = dir if dir is not None else folder_from_environment(trainer.args.output_dir)
        if folder is None:
            log.warning(
                "rlpanel: nothing is recorded: give record() a folder, or set %s=true, and %s and %s if "
                "needed",
                *(SAVE, NAME, OUTPUT),
            )
            return Recording()
        return Recording(trainer, RolloutWriter(folder, trainer.accelerator.process_index, **settings), asked)
    except (SettingError, ImportError):
        raise  # of a wrong setting, before any training
    except Exception as error:
        log.warning("rlpanel: nothing of %s is recorded: %s", _this(trainer), _named(error))
        log.debug("rlpanel", exc_info=True)
        return Recording()
