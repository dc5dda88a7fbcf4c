"""Builds the report: the current board or one sample as an HTML file that opens offline."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from bokeh.resources import Resources

from rlpanel.panels.findings.findings_list import findings_html
from rlpanel.panels.language.labels import ENGLISH, using
from rlpanel.panels.report.carried_samples import collect_samples
from rlpanel.panels.report.report_contents import check_step, first_position, run_query, select_rows
from rlpanel.panels.report.report_facts import facts_html
from rlpanel.panels.report.report_plots import plot_json, plots_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.step_summary import step_numbers_html
from rlpanel.panels.tokens.token_payload import metric_declarations
from rlpanel.panels.tokens.token_view import TokenComponent
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_document import document
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.query import QueryResult

#: Default number of samples in a report.
SAMPLES = 32


@using(ENGLISH)  # an exported file is read by others, too
def board_html(context: Context, samples: int = SAMPLES) -> bytes:
    """Return the report of a board: findings, curves, the step's plots, and the samples of its query.

    Parameters
    ----------
    context : Context
        A copy returned by `frozen`.
    samples : int
        Maximum number of samples, including the selected one.

    Raises
    ------
    FilterError
        If the filter, the search or the sort order is not valid.
    SettingError
        If the run does not have the selected step.
    """
    now, snapshot = time.time(), context.snapshot
    check_step(context)
    outcome = run_query(context)
    carried = collect_samples(context, select_rows(context, outcome, samples), outcome)
    # Before the plots are drawn, because `plots_of` changes display settings that the facts mention.
    facts = facts_html(context, outcome, carried, now, alone=False)
    plots = plots_of(context)
    curves = _cards("plot", [drawing.head for drawing in plots.curves])
    of_step = _cards("bars", [card.head_html() for card in plots.step])
    body = (
        f"{_header(snapshot.name)}{facts}"
        f"<h2>Findings</h2>{findings_html(context.view, now)}"
        f'<h2>Curves</h2><div class="cards">{curves}</div>'
        f'<h2>Step {context.selection.step}</h2><div class="cards of-step">{of_step}</div>'
        f'<div class="numbers">{step_numbers_html(context)}</div>'
        f'<h2>Samples</h2><div class="samples"><div class="grid">{carried.table}</div>'
        f'<div class="shown">{"".join(carried.articles)}</div></div>'
    )
    data = _data(context, carried.tokens) | {
        "plots": [plot_json(drawing) for drawing in plots.curves],
        "bars": [{"plot": card.plot, "marker": card.marker, "height": card.height_px} for card in plots.step],
        "colors": plots.colors,
        "first": first_position(context, [sample.uid for sample in carried.samples]),
    }
    title = f"{snapshot.name} · step {context.selection.step} · rlpanel"
    bokeh = Resources(mode="inline", components=["bokeh"]).js_raw
    scripts = [*bokeh, _script()]
    return document(title, _style(), body, data, scripts, plays_media=carried.embedded_chars > 0)


@using(ENGLISH)  # an exported file is read by others, too
def sample_html(context: Context, uid: str) -> bytes:
    """Return the report of one sample: texts, tokens and numbers.

    Raises
    ------
    SampleNotFound
        If no current row has this uid.
    """
    now, snapshot = time.time(), context.snapshot
    rows = np.array([snapshot.row(uid)])
    outcome = QueryResult(rows, snapshot.samples)
    carried = collect_samples(context, rows, outcome)
    facts = facts_html(context, outcome, carried, now, alone=True)
    body = f'{_header(snapshot.name)}{facts}<div class="shown">{"".join(carried.articles)}</div>'
    data = _data(context, carried.tokens) | {"plots": [], "bars": [], "colors": {}, "first": 0}
    title = f"{snapshot.name} · {uid} · rlpanel"
    return document(title, _style(), body, data, [_script()], plays_media=carried.embedded_chars > 0)


# -- pieces of the page --------------------------------------------------------------------------


def _header(run: str) -> str:
    return (
        '<header><span class="logo">rl<span class="policy">panel</span></span>'
        f"<h1>{safe_text(run)}</h1><span class='snapshot'>snapshot</span></header>"
    )


def _cards(name: str, heads: list[str]) -> str:
    """Return a card per head, with an element for its plot whose id is the name and a number."""
    return "".join(
        f'<div class="card">{head}<div class="plot" id="{name}-{number}"></div></div>'
        for number, head in enumerate(heads)
    )


def _data(context: Context, tokens: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "tokens": tokens,
        "metrics": metric_declarations(),
        "metric": context.selection.metric,
        "token": context.selection.token,
        "styles": TokenComponent._stylesheets,
    }


def _style() -> str:
    """Return the CSS: colours for the light and dark theme of the reader's system, and the layout."""
    fonts = {"font": theme.FONT, "mono": theme.MONO}
    return "\n".join(
        (
            f":root {{{theme.variables(theme.LIGHT | fonts)}}}",
            f"@media (prefers-color-scheme: dark) {{ :root {{{theme.variables(theme.DARK)}}} }}",
            theme.CSS.replace(":host", "body"),
            f".numbers {{ {read_assets('panels/step/step_summary.css')} }}",
            read_assets("panels/findings/findings_list.css"),
            read_assets("panels/plots/bar_plot.css"),
            read_assets("panels/texts/prompt.css", "panels/report/report.css"),
        )
    )


def _script() -> str:
    """Return the page's module script: the functions that draw tokens and bars, followed by ``report.js``."""
    tokens = TokenComponent._esm.replace("export function render", "function render")
    bars = read_assets("panels/ui/dom.js", "panels/ui/svg.js", "panels/plots/bar_plot.js")
    page = read_assets("panels/report/report.js")
    return "\n".join(
        (
            f"const tokenView = (() => {{\n{tokens}\nreturn render\n}})()",
            f"const barPlot = (() => {{\n{bars}\nreturn barPlot\n}})()",
            page,
        )
    )
