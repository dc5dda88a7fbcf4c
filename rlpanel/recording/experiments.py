"""Finds the folder of an experiment by its name, for ``rlpanel serve EXP_NAME``."""

from __future__ import annotations

import difflib
from pathlib import Path

from rlpanel.errors import RunNotFound
from rlpanel.recording.output_dir import FOLDER, NAME, OUTPUT, SAVE, samples_folder

#: Number of levels searched below the working folder: ./rollout_samples, ./*/rollout_samples …
DEPTH = 2


def experiment_folders(start: Path | None = None) -> list[Path]:
    """Return all folders of experiments: the environment's first, then those below the working folder."""
    top = start or Path()
    folders = [samples_folder(), *(home for depth in range(DEPTH + 1) for home in _homes_at(top, depth))]
    return list(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _homes_at(start: Path, depth: int) -> list[Path]:
    try:
        return sorted(start.glob("/".join([*["*"] * depth, FOLDER])))
    except OSError:
        return []


def find_experiment(name: str, start: Path | None = None) -> tuple[Path, str]:
    """Return an experiment's folder, and a message for the user if that folder does not exist yet.

    Raises
    ------
    RunNotFound
        If several experiments have this name, or none has it but there is one with a similar name.
    """
    parents = experiment_folders(start)
    matches = [home / name for home in parents if (home / name).is_dir()]
    if len(matches) == 1:
        return matches[0], ""
    if matches:
        raise RunNotFound(f"there are {len(matches)} experiments {name!r}: give one of {_listed(matches)}")
    existing = sorted({entry.name for home in parents for entry in home.iterdir() if entry.is_dir()})
    expected = samples_folder() / name
    if close := difflib.get_close_matches(name, existing, n=3):
        raise RunNotFound(
            f"no experiment {name!r}; did you mean {' or '.join(close)}? "
            f"If the experiment has not started yet, give its folder: rlpanel serve {expected}"
        )
    others = f"existing ones: {', '.join(existing[:8])}" if existing else f"no {FOLDER} folder near here"
    return expected, (
        f"no experiment {name!r} yet ({others}); the board waits for {expected}. If training is running, "
        f"check that its environment has {SAVE}=true, {NAME}={name}, and {OUTPUT} or an output folder here"
    )


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
