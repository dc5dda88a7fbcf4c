"""Where rollouts go when the environment says so: ``<output>/rollout_samples/<EXP_NAME>/``."""

from __future__ import annotations

import os
from pathlib import Path

from rlpanel.recording.writer.recording_options import is_true

FOLDER = "rollout_samples"
#: Whether to record, the experiment's name, and the folder that takes the place of ``<output>``.
SAVE, NAME, OUTPUT = "SAVE_ROLLOUT_DATA", "EXP_NAME", "ROLLOUT_DATA_DIR"


def requested_by_environment() -> bool | None:
    """What ``SAVE_ROLLOUT_DATA`` says; None where it says nothing."""
    text = os.environ.get(SAVE, "").strip()
    return is_true(text) if text else None


def samples_folder(output: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds the experiments.

    ``ROLLOUT_DATA_DIR`` may name the output folder or its ``rollout_samples``; without it ``output``
    counts, then the working folder.
    """
    path = Path(os.environ.get(OUTPUT) or output or ".")
    return path if path.name == FOLDER else path / FOLDER


def folder_from_environment(output: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder to record into, or None where ``SAVE_ROLLOUT_DATA`` does not ask for it.

    Parameters
    ----------
    output : path, optional
        The training's output folder; ``ROLLOUT_DATA_DIR`` goes before it.
    """
    if not requested_by_environment():
        return None
    name = os.environ.get(NAME, "").strip() or Path(output or ".").resolve().name
    # A name, not a path: EXP_NAME=../x must not leave the folder.
    return samples_folder(output) / (name.replace(os.sep, "_").lstrip(".") or "run")
