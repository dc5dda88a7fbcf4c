"""Select of the page's language, below the settings in the side panel."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import ENGLISH, LANGUAGES, current_language
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class LanguageSwitch(Component):
    """Select of all languages. The browser stores the choice and loads the page again."""

    language = param.String(default=ENGLISH, doc="Language of the page.")
    languages = param.Dict(default=LANGUAGES, doc="Name of each language, by its code.")

    _esm = read_assets("panels/ui/dom.js", "panels/language/language_switch.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/language/language_switch.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(language=current_language(), css_classes=["rl-language"], **params)
