"""Settings of a run from the configuration files in its folder, for its summary in the table of runs."""

from __future__ import annotations

from pathlib import Path

from rlpanel.sources.config.run_config import read_run_config
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.index.run_summary import Setting, settings_of

#: Seconds until the files are looked at again.
AGAIN = 60.0


def folder_settings(run: AnyPath, root: AnyPath | None) -> dict[str, Setting]:
    """Return the settings of the files, without secrets; none of a run on another machine.

    Parameters
    ----------
    run, root : path
        The run's folder, and the highest folder that is shown.
    """
    return settings_of(read_run_config(run, root).values) if isinstance(run, Path) else {}
