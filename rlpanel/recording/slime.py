"""Records the rollouts of slime and miles, which call a function with each rollout's samples.

Add to the training's arguments ``--custom-rollout-log-function-path rlpanel.recording.slime.log
--custom-eval-rollout-log-function-path rlpanel.recording.slime.log_eval``. Both functions return False, so
the trainer's own log stays. Rows go to ``rollout_samples/<EXP_NAME>`` in the folder of ``--save``, or else
of ``--dump-details``, or else in the working folder. ``ROLLOUT_DATA_DIR`` replaces that folder.

Neither trainer is imported. Tested with the samples of slime 624b824a8 and miles 31f1ca961.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.recording.hook_rows import HookRows
from rlpanel.slime_samples import sample_rows

_ROWS = HookRows()


def log(
    rollout_id: int, args: Any, samples: Any, rollout_extra_metrics: Any = None, rollout_time: Any = None
) -> bool:
    """Record the samples of a rollout; return False, so that the trainer logs its metrics as well.

    Parameters
    ----------
    rollout_id : int
        The step.
    args : namespace
        The trainer's arguments.
    samples : list of Sample, or nested lists of them
    rollout_extra_metrics, rollout_time
        Not recorded; the trainer logs them.
    """
    _ROWS.write("slime's rollouts", _output(args), _training, rollout_id, args, samples)
    return False


def log_eval(rollout_id: int, args: Any, data: Any, extra_metrics: Any = None) -> bool:
    """Record the samples of an evaluation; return False, so that the trainer logs its metrics as well.

    Parameters
    ----------
    rollout_id : int
        The step.
    args : namespace
        The trainer's arguments.
    data : dict of str to dict
        For each data set, ``samples`` and others.
    extra_metrics
        Not recorded; the trainer logs them.
    """
    _ROWS.write("slime's evaluations", _output(args), _evaluation, rollout_id, args, data)
    return False


def flush() -> None:
    """Wait until all rows so far are on disk."""
    _ROWS.flush()


def _output(args: Any) -> Any:
    return getattr(args, "save", None) or getattr(args, "dump_details", None)


def _training(step: int, args: Any, samples: Any) -> Iterator[dict[str, Any]]:
    fields = [sample.to_dict() for sample in _flat(samples)]
    for row in sample_rows(fields, getattr(args, "reward_key", None)):
        yield {"step": step, **row}


def _evaluation(step: int, args: Any, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    key = getattr(args, "eval_reward_key", None) or getattr(args, "reward_key", None)
    for name, part in data.items():
        fields = [sample.to_dict() for sample in _flat(part.get("samples") or [])]
        for row in sample_rows(fields, key):
            if "group" in row:
                row["group"] = f"{name}:{row['group']}"  # each data set may count from 0
            yield {"step": step, "split": "eval", "data_source": name, **row}


def _flat(samples: Any) -> Iterator[Any]:
    """Yield the samples of nested lists: groups, or rollouts that were split into several samples."""
    for sample in samples:
        if isinstance(sample, list | tuple):
            yield from _flat(sample)
        else:
            yield sample
