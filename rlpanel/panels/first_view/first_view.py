"""The first view: header, runs, curves and newest samples as static HTML, in the places of the live board.

The browser paints it before it has loaded a script. It contains what this process knows already; nothing is
read for it but a few texts.
"""

from __future__ import annotations

import time

from rlpanel.board_url import RUNS_PAGE
from rlpanel.findings.check import known_findings
from rlpanel.number_text import number
from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.curves.curve_bar import Curve, curves_of
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plain_plots import line_svg
from rlpanel.panels.samples.visible_rows import visible_rows
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_badge import badge_html
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.texts.sample_texts import READ_NOW, read_texts, text_style, unread_bytes
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.snapshot_cache import Texts
from rlpanel.texts.prompt_parts import TextStyle, clean, prompt_cell
from rlpanel.texts.shorten import one_line


def curve_html(context: Context, curve: Curve) -> str:
    """Return a card with the curve's head and line; without points the card has a head only."""
    view, selection = context.view, context.selection
    column = trainer_scalars.describe(curve.columns[0])
    points = curve_points.shared_points(
        view, curve.columns[0], selection.align, context.display, selection.smooth
    )
    step = selection.step
    value = float("nan")
    if step is not None:
        values, position = trainer_scalars.values(view, column.name, step)
        value = float(values[position]) if position >= 0 else value
    return (
        f'<div class="card curve"><div class="head"><b>{safe_text(curve.title)}</b>'
        f'<span class="number {safe_text(column.color)}">{number(value)}</span></div>'
        f"{line_svg(points['x'], points['y'], points['lo'], points['hi'], column.color)}</div>"
    )


#: Maximum numbers of runs, samples and findings, and characters of the shown response.
_RUNS, _SAMPLES, _FINDINGS, _RESPONSE_CHARS = 40, 14, 3, 3000


def first_view_html(context: Context) -> str:
    """Return the first view of a page; all texts of the log are escaped."""
    return (
        f"{_header(context)}<div class='body'>{_side(context)}<main>"
        f"{_findings(context)}{_curves(context)}{_step(context)}{_samples(context)}</main></div>"
    )


def _header(context: Context) -> str:
    names = {info.name: info.label for info in context.runs}
    label = names.get(context.selection.run, context.selection.run)
    badge = badge_html(context.snapshot, time.time(), label) if label else ""
    logo = '<span class="logo">rl<span class="policy">panel</span></span>'
    return f"<header>{logo}<div class='badge'>{badge}</div></header>"


def _side(context: Context) -> str:
    """Return the names of the runs, each as high as its entry in the list that follows."""
    labels = run_labels(context.runs)
    items = "".join(
        f"<li{' class=chosen' if name == context.selection.run else ''}>{safe_text(label)}</li>"
        for name, label in [*labels.items()][:_RUNS]
    )
    name = tr("Runs")
    return f'<nav aria-label="{name}"><ul>{items}</ul></nav>'


def _findings(context: Context) -> str:
    """Return the findings that are known already and still go on."""
    if context.index is None:
        return ""
    found = [
        each for each in known_findings(context.index, context.snapshot.split) if each.severity != "info"
    ]
    items = "".join(
        f'<li class="{each.severity}">{safe_text(tr_finding(each.sentence))}</li>'
        for each in found[:_FINDINGS]
    )
    return f'<ul class="findings">{items}</ul>' if items else ""


def _curves(context: Context) -> str:
    if not context.snapshot.samples:
        return ""
    cards = "".join(curve_html(context, curve) for curve in curves_of(context))
    return f'<div class="curves">{cards}</div>'


def _step(context: Context) -> str:
    step = context.selection.step
    if context.selection.page == RUNS_PAGE:
        return ""
    text = tr("Step {step}", step=step) if step is not None else tr("Reading …")
    return f'<div class="card step"><b>{text}</b></div>'


def _samples(context: Context) -> str:
    """Return the step's first samples, and the response of the first one."""
    index, step, snapshot = context.index, context.selection.step, context.snapshot
    if index is None or step is None or not snapshot.samples:
        return ""
    rows = visible_rows(context.view, step, context.display)[:_SAMPLES]
    if not len(rows) or unread_bytes(index, snapshot, rows) > READ_NOW:
        return ""
    texts = read_texts(index, snapshot, rows)
    rewards = snapshot.number("reward")[rows].tolist() if snapshot.has_number("reward") else None
    style = text_style(context)
    lines = "".join(
        f"<tr><td>{_prompt(each, style)}</td><td>{_response(each, style)}</td>"
        f'<td class="num">{number(rewards[position]) if rewards is not None else ""}</td></tr>'
        for position, each in enumerate(texts)
    )
    head = "<tr><th>prompt</th><th>response</th><th>reward</th></tr>"
    response = safe_text(clean(texts[0].get("response", ""), style)[:_RESPONSE_CHARS])
    return (
        f'<div class="lower"><div class="card"><table>{head}{lines}</table></div>'
        f'<div class="card"><p>{response}</p></div></div>'
    )


def _prompt(texts: Texts, style: TextStyle) -> str:
    return safe_text(one_line(prompt_cell(texts.get("prompt", ""), style, narrow=True)))


def _response(texts: Texts, style: TextStyle) -> str:
    return safe_text(one_line(clean(texts.get("response", ""), style)))
