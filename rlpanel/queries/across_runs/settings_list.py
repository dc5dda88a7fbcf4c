"""The table of a run's settings, from the configuration files in its folder; secrets are not shown."""

from __future__ import annotations

from typing import Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page

Find = Annotated[str, Option("Only settings whose name contains this text.", chars=100)]


@question(
    name="settings",
    description="Settings of a run, from the configuration files and launch commands in its folder.",
    columns=(
        TableColumn("name", "text", "Dotted name of the setting."),
        TableColumn("value", "text", "Its value as text; null if it is null or hidden."),
        TableColumn("file", "text", "The file that it comes from, relative to the run's folder."),
        TableColumn("hidden", "boolean", "True if it may be a secret, so that its value is not shown."),
    ),
    about=(
        RUN,
        TableColumn("files", "texts", "Files that were read."),
        TableColumn("skipped", "objects", "Files that were not read, with reasons."),
        TableColumn("hidden_settings", "integer", "Number of settings whose values are not shown."),
        TableColumn("beyond_limits", "integer", "Settings beyond the limits on number and nesting."),
    ),
    has_relation=False,
    has_split=False,
    example="rlpanel settings runs/exp1 --find lr",
    agents="List the settings of a run's configuration files and launch command; secrets are hidden.",
)
def settings_list(run: RunData, *, find: Find = "", limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the settings of a run.

    Parameters
    ----------
    run : RunData
    find : str
        Only settings whose name contains this text.
    limit : int, optional
        Maximum number of settings; all by default.
    offset : int
        Number of settings to skip.
    """
    from rlpanel.sources.config.config_values import setting_value
    from rlpanel.sources.config.run_config import read_run_config

    config = read_run_config(run.path, run.index.root)
    chosen = [each for each in config.settings if find.lower() in each.name.lower()]
    about = {
        "run": run.name,
        "files": list(config.files),
        "skipped": [{"file": file, "reason": reason} for file, reason in config.skipped],
        "hidden_settings": config.hidden,
        "beyond_limits": config.left_out,
    }
    rows = [
        {
            "name": each.name,
            "value": None if each.value is None else setting_value(each.value),
            "file": each.file,
            "hidden": each.hidden,
        }
        for each in page(chosen, offset, limit)
    ]
    return settings_list.table(rows, total=len(chosen), offset=offset, about=about)
