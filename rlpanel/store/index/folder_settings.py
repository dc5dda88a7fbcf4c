"""Settings of a run: the numbers, switches and short texts of the configuration files in its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rlpanel.sources.config.config_secrets import is_secret
from rlpanel.sources.config.run_config import OF_RECORDING, read_run_config
from rlpanel.sources.files.file_access import AnyPath

#: Seconds until the files are looked at again.
AGAIN = 60.0
#: Most settings of a run that are kept, and most characters of a name or value; longer ones are left out.
MAX_SETTINGS, MAX_SETTING = 256, 64

#: A value of a run's configuration.
Setting: TypeAlias = float | str | bool


def run_settings(logged: Mapping[str, Any], run: AnyPath, root: AnyPath | None) -> dict[str, Setting]:
    """Return the settings of a run without secrets, at most `MAX_SETTINGS`.

    Those of its ``run.json`` come first and win; a folder on another machine adds none of its other files.

    Parameters
    ----------
    logged : mapping
        Content of the ``run.json``.
    run, root : path
        The run's folder, and the highest folder that is shown.
    """
    own = settings_of({name: value for name, value in logged.items() if name not in OF_RECORDING})
    others = settings_of(read_run_config(run, root).values) if isinstance(run, Path) else {}
    return dict(islice({**own, **others, **own}.items(), MAX_SETTINGS))


def settings_of(content: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the numbers, switches and short texts of a ``run.json``; nested ones by their path.

    What may be a secret is left out: a summary is saved, and all viewers of the table of runs see it.
    """
    found: dict[str, Setting] = {}
    queue: list[tuple[str, Any]] = [(str(key), value) for key, value in content.items()]
    while queue and len(found) < MAX_SETTINGS:
        name, value = queue.pop(0)
        if isinstance(value, dict) and name.count(".") < 2:
            queue += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif len(name) <= MAX_SETTING and _is_setting(value) and not is_secret(name, value):
            found[name] = value if isinstance(value, str | bool) else float(value)
    return found


def _is_setting(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_SETTING
    if isinstance(value, int) and abs(value) > 2**53:
        return False
    return isinstance(value, int | float) and math.isfinite(value)
