"""Settings in which runs differ, such as the learning rate: from ``run.json``, else from the run's path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from rlpanel.store.index.folder_settings import Setting

#: Settings as people write them into a path, and our short name of those that trainers name otherwise.
_SHORT = {
    "learning_rate": "lr",
    "actor_lr": "lr",
    "kl_coef": "beta",
    "kl_beta": "beta",
    "cliprange": "epsilon",
    "clip": "epsilon",
    "eps": "epsilon",
    "temp": "temperature",
    "lambda": "lam",
    "bs": "batch_size",
    "batch": "batch_size",
    "num_generations": "group_size",
}
#: Names that count as a setting in a path also without a sign before the number: a model's name does not.
_IN_PATHS = frozenset(
    (
        *("lr", "beta", "seed", "kl", "epsilon", "eps", "clip", "gamma", "lam", "lambda", "temp"),
        *("temperature", "bs", "batch", "tau", "alpha", "wd", "warmup", "ent", "entropy", "dropout", "topp"),
    )
)
_SETTING = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z_]*?)([=_-]?)(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![A-Za-z0-9.])"
)
#: The settings that are asked for first; others follow by the number of runs that have them.
_FIRST = ("lr", "beta", "seed", "epsilon", "temperature", "group_size", "batch_size", "algo", "loss_type")
#: Names and versions, which are not what a run was changed in.
_NEVER = re.compile(
    r"(^|[._])(name|dir|path|id|uuid|time|date|host|user|version|versions|url|commit|pid|port)$"
)


def settings_in_path(label: str) -> dict[str, Setting]:
    """Return the settings that a path spells out: ``lr3e-6-seed2`` or ``beta=0.01``."""
    found: dict[str, Setting] = {}
    for name, sign, value in _SETTING.findall(label):
        if sign == "=" or name.lower() in _IN_PATHS:
            found[_short(name.lower())] = float(value)
    return found


def settings_of_run(config: Mapping[str, Setting], label: str) -> dict[str, Setting]:
    """Return a run's settings by short name; those of its ``run.json`` precede those of its path."""
    return settings_in_path(label) | {_short(name): value for name, value in config.items()}


#: Settings that hold the number of GPUs, and pairs of which the product is it.
_GPUS = ("n_gpus", "num_gpus", "gpus", "world_size", "processes", "num_processes")
_GPU_PAIRS = (("n_gpus_per_node", "nnodes"), ("gpus_per_node", "num_nodes"))


def gpus_of(config: Mapping[str, Setting]) -> float | None:
    """Return the number of GPUs that a run's configuration names; None if it names none."""
    named = {
        name.rpartition(".")[2]: float(value)
        for name, value in config.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    }
    products = (named[one] * named[other] for one, other in _GPU_PAIRS if one in named and other in named)
    return next(products, next((named[name] for name in _GPUS if name in named), None))


def _short(name: str) -> str:
    return _SHORT.get(name.rpartition(".")[2], name)


def differing(settings: Iterable[Mapping[str, Setting]]) -> list[str]:
    """Return the names of the settings that have several values among the runs, those to look at first first.

    A text that is another one in each run is a name and no setting.
    """
    values: dict[str, list[Setting]] = {}
    for each in settings:
        for name, value in each.items():
            values.setdefault(name, []).append(value)
    found = [name for name, given in values.items() if not _NEVER.search(name) and _tells(given)]
    place = {name: at for at, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (place.get(name, len(place)), -len(values[name]), name))


def _tells(values: list[Setting]) -> bool:
    different = Counter(map(str, values))
    is_name = any(isinstance(value, str) for value in values) and len(different) == len(values) > 2
    return len(different) > 1 and not is_name


def setting_text(value: Setting | None) -> str:
    """Return a setting as people write it: 3e-6, 0.04, on, dapo; empty if the run does not have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    text = f"{value:.4g}"
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", text)
