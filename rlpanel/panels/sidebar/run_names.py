"""Names of runs in lists: the part of the path that says which run it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile

#: Most levels that are left out at the end of a path.
_LEVELS = 4


def places(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the place of each run in a tree, by name: its label without an end that says nothing.

    Trainers name the folder of the rollouts: if each of several folders has one run, and all these runs have
    the same name, such as ``run``, then the folders' names are the ones to show.

    Parameters
    ----------
    labels : mapping of str to str
        Name of each run → its path as it is shown.
    """
    found = dict(labels)
    for _ in range(_LEVELS):
        in_folder = Counter(place.rpartition("/")[0] for place in found.values())
        alone = {
            name: place.rpartition("/")
            for name, place in found.items()
            if "/" in place and in_folder[place.rpartition("/")[0]] == 1
        }
        ends = Counter(end for _, _, end in alone.values())
        shorter = {name: folder for name, (folder, _, end) in alone.items() if ends[end] > 1}
        taken = {*found.values()}
        if not shorter or not taken.isdisjoint(shorter.values()):
            return found
        found |= shorter
    return found


def short_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the part of each run's path that differs from the others', by name; of one run its last part."""
    place = places(labels)
    if len(place) == 1:
        return {name: each.rpartition("/")[2] for name, each in place.items()}
    folders = [each.split("/")[:-1] for each in place.values()]
    shared = len(list(takewhile(lambda level: len({*level}) == 1, zip(*folders, strict=False))))
    return {name: "/".join(each.split("/")[shared:]) for name, each in place.items()}
