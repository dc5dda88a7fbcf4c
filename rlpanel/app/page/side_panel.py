"""The side panel of the page: runs, paths that are not shown, settings and language."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panels.language.language_switch import LanguageSwitch
from rlpanel.panels.sidebar.run_list import RunList
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.panels.status.skipped_paths import LeftOut
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script


class SidePanel(Region):
    """The side panel's parts, from top to bottom; the list of runs and the settings are large."""

    run_list = param.String()
    run_list_runs = param.String()
    left_out = param.String()
    settings = param.String()
    settings_groups = param.String()
    language = param.String()

    _esm = region_script(run_list=RunList, left_out=LeftOut, settings=SettingsForm, language=LanguageSwitch)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/side.css")]
