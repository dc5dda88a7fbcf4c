"""HTML of a sample's texts that several tabs show: the folded prompt and the keys without a meaning."""

from __future__ import annotations

from collections.abc import Sequence

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.language.labels import tr
from rlpanel.panels.texts.prompt_text import prompt_html
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.prompt_line import one_line, prompt_cell
from rlpanel.texts.prompt_parts import TextStyle


def text_pane(css_class: str) -> HtmlPane:
    """An empty pane in the style of a sample's texts."""
    return HtmlPane(
        "",
        stylesheets=[theme.CSS, read_assets("panels/texts/prompt.css", "panels/sample/sample_text.css")],
        sizing_mode="stretch_width",
        margin=(8, 14, 4, 14),
        css_classes=[css_class],
    )


def prompt_block(sample: Sample | None, style: TextStyle, tests: Sequence[TextPredicate] = ()) -> str:
    """The prompt as one line that opens; empty where no prompt is logged.

    Parameters
    ----------
    tests : sequence of TextPredicate
        Conditions on texts. If they find something in the prompt, it is open and shows the place.
    """
    if sample is None or sample.prompt is None:
        return ""
    text = sample.prompt
    places = PlaceFinder(tests).places("prompt", text)
    line = one_line(prompt_cell(text, style, places))
    return (
        f'<details class="prompt"{" open" if places else ""}><summary><span class="caption">Prompt</span>'
        f"<span>{safe_text(line)}</span></summary>"
        f'<div class="parts">{prompt_html(text, style, places)}</div></details>'
    )


def extra_html(sample: Sample) -> str:
    """The keys of the sample's line that rlpanel gives no meaning, as plain text."""
    if not sample.extra:
        return ""
    rows = "".join(
        f"<tr><td>{safe_text(key)}</td><td>{safe_text(_brief(value))}</td></tr>"
        for key, value in sample.extra.items()
    )
    summary = tr("<summary>{extra} further keys of the line</summary>").format(extra=len(sample.extra))
    return f'<details class="extra">{summary}<table>{rows}</table></details>'


def _brief(value: object) -> str:
    try:
        return str(value)[:2000]
    except RecursionError:
        return tr("nested too deeply to be shown")
