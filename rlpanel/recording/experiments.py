"""From an experiment's name to its folder, as ``rlpanel serve EXP_NAME`` takes it."""

from __future__ import annotations

import difflib
from pathlib import Path

from rlpanel.errors import RunNotFound
from rlpanel.recording.output_dir import FOLDER, NAME, OUTPUT, SAVE, samples_folder

#: How deep below the working folder outputs are looked for: ./rollout_samples, ./*/rollout_samples …
DEPTH = 2


def homes(start: Path | None = None) -> list[Path]:
    """Every folder of experiments near: the environment's first, then those below the working folder."""
    below = start or Path()
    places = [samples_folder(), *(home for depth in range(DEPTH + 1) for home in _below(below, depth))]
    return list(dict.fromkeys(place for place in places if place.is_dir()))


def _below(start: Path, depth: int) -> list[Path]:
    try:
        return sorted(start.glob("/".join([*["*"] * depth, FOLDER])))
    except OSError:
        return []


def find_experiment(name: str, start: Path | None = None) -> tuple[Path, str]:
    """The folder of an experiment, and what to say where it is not there yet.

    Raises
    ------
    RunNotFound
        If several have this name, or none has but another one nearly has.
    """
    around = homes(start)
    found = [home / name for home in around if (home / name).is_dir()]
    if len(found) == 1:
        return found[0], ""
    if found:
        raise RunNotFound(f"there are {len(found)} experiments {name!r}: give one of {_listed(found)}")
    known = sorted({entry.name for home in around for entry in home.iterdir() if entry.is_dir()})
    wanted = samples_folder() / name
    if close := difflib.get_close_matches(name, known, n=3):
        raise RunNotFound(
            f"no experiment {name!r}; did you mean {' or '.join(close)}? "
            f"For one that has not begun yet give its folder: rlpanel serve {wanted}"
        )
    seen = f"there is {', '.join(known[:8])}" if known else f"no {FOLDER} folder near here"
    return wanted, (
        f"no experiment {name!r} yet ({seen}); the board waits for {wanted}. If training runs, check that "
        f"its environment has {SAVE}=true, {NAME}={name}, and {OUTPUT} or an output folder here"
    )


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
