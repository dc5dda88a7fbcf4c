"""Output folder that environment variables select: ``<output>/rollout_samples/<EXP_NAME>/``."""

from __future__ import annotations

import os
from pathlib import Path

from rlpanel.recording.writer.recording_options import is_true

FOLDER = "rollout_samples"
#: Variables: whether to record, the experiment's name, and the folder that replaces ``<output>``.
SAVE, NAME, OUTPUT = "SAVE_ROLLOUT_DATA", "EXP_NAME", "ROLLOUT_DATA_DIR"


def requested_by_environment() -> bool | None:
    """Return the value of ``SAVE_ROLLOUT_DATA``, or None if it is not set."""
    text = os.environ.get(SAVE, "").strip()
    return is_true(text) if text else None


def samples_folder(output: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the experiments.

    ``ROLLOUT_DATA_DIR`` may name the output folder or its ``rollout_samples``. Without it, ``output`` is
    used, or else the working folder.
    """
    path = Path(os.environ.get(OUTPUT) or output or ".")
    return path if path.name == FOLDER else path / FOLDER


def folder_from_environment(output: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder to record into, or None if ``SAVE_ROLLOUT_DATA`` is not true.

    Parameters
    ----------
    output : path, optional
        The training's output folder; ``ROLLOUT_DATA_DIR`` takes precedence over it.
    """
    return _experiment(output) if requested_by_environment() else None


def folder_of_hook(output: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder that a hook records into, or None if ``SAVE_ROLLOUT_DATA`` is false.

    A hook is named in a trainer's options in order to record, so the variable need not be set.

    Parameters
    ----------
    output : path, optional
        The training's output folder; ``ROLLOUT_DATA_DIR`` takes precedence over it.
    """
    return None if requested_by_environment() is False else _experiment(output)


def _experiment(output: str | os.PathLike[str] | None) -> Path:
    name = os.environ.get(NAME, "").strip() or Path(output or ".").resolve().name
    # The name must not act as a path: EXP_NAME=../x would lead out of the folder.
    return samples_folder(output) / (name.replace(os.sep, "_").lstrip(".") or "run")
