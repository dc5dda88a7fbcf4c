"""A gate's result as one HTML file that needs no server and no network; texts of logs are escaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from rlpanel.board_url import USUAL_ADDRESS, board_link
from rlpanel.gate.gate_result import GateResult, GateSample, NumberResult, p_text, size_text
from rlpanel.gate.window_chart import window_chart
from rlpanel.number_text import number as text

#: Most characters of a prompt and of a response.
MAX_CHARS = 2000


@dataclass(frozen=True)
class SampleTexts:
    """Prompt and response of a sample; None if its line cannot be read any more."""

    prompt: str | None
    response: str | None


def page_text(result: GateResult, texts: Mapping[str, SampleTexts], board: str = USUAL_ADDRESS) -> str:
    """Return the page.

    Parameters
    ----------
    result : GateResult
    texts : mapping
        Texts of the samples by uid.
    board : str
        Address of the board that links lead to.
    """
    style = Markup((Path(__file__).parent / "gate_page.css").read_text("utf-8"))  # of the package
    notes = Markup("").join(Markup("<li>{}</li>").format(note) for note in result.notes)
    parts = Markup("").join(_section(result, each, texts, board) for each in result.numbers)
    return str(
        Markup(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            "<title>Gate: {run}</title><style>{style}</style></head><body><main>"
            '<h1>Gate: {run} <span class="state {kind}">{state}</span></h1>'
            '<p class="verdict">{sentence}</p><p class="facts">{facts}</p>'
            "{notes}{table}{parts}</main></body></html>\n"
        ).format(
            run=result.run,
            style=style,
            kind=_kind(result.state),
            state=result.state,
            sentence=result.sentence,
            facts=_facts(result),
            notes=Markup('<ul class="notes">{}</ul>').format(notes) if notes else "",
            table=_table(result),
            parts=parts,
        )
    )


def _kind(state: str) -> str:
    return state.replace(" ", "-")


def _facts(result: GateResult) -> str:
    against = f"Baselines: {', '.join(result.against)}."
    if not result.windows:
        return against
    return (
        f"{against} {result.windows} windows over {result.align} {result.low:,.0f} to {result.high:,.0f}, "
        f"{result.steps:,} steps of {result.run}. Chances are corrected for {result.tests} tests."
    )


def _table(result: GateResult) -> Markup:
    rows = Markup("").join(map(_row, result.numbers))
    heads = ("number", "state", "new", "baselines", "worsening found with 80 %", "p", "first step")
    head = Markup("").join(Markup("<th>{}</th>").format(each) for each in heads)
    return Markup(
        '<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(head, rows)


def _row(each: NumberResult) -> Markup:
    number, contrast = each.number, each.contrast
    link = Markup('<a href="#{0}">{0}</a>').format(number.name)
    state = Markup('<span class="state {}">{}</span>').format(_kind(each.state), each.state)
    cells: list[str | Markup] = [link, state]
    if contrast is None:
        cells += ["–"] * 5
    else:
        cells += [
            text(number.natural(contrast.new)),
            text(number.natural(contrast.baselines)),
            size_text(number, each.detectable) if contrast.degrees else "–",
            p_text(each.p).removeprefix("p = ").removeprefix("p "),
            "–" if each.first_step is None else f"{each.first_step:,}",
        ]
    return Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells))


def _section(result: GateResult, each: NumberResult, texts: Mapping[str, SampleTexts], board: str) -> Markup:
    chart = window_chart(each, result.run) if each.windows else Markup("")
    begin = Markup("")
    if each.first_step is not None:
        link = board_link(result.run, step=each.first_step, url=board)
        begin = Markup('<p><a href="{}">Open step {} on the board</a></p>').format(
            link, f"{each.first_step:,}"
        )
    samples = Markup("").join(_sample(result, one, texts, board) for one in each.samples)
    return Markup(
        '<section id="{name}"><h2>{name} <span class="state {kind}">{state}</span></h2>'
        "<p>{sentence}</p>{chart}{begin}{samples}</section>"
    ).format(
        name=each.number.name,
        kind=_kind(each.state),
        state=each.state,
        sentence=each.sentence,
        chart=chart,
        begin=begin,
        samples=samples,
    )


def _sample(result: GateResult, each: GateSample, texts: Mapping[str, SampleTexts], board: str) -> Markup:
    found = texts.get(each.uid, SampleTexts(None, None))
    link = board_link(result.run, step=each.step, sample=each.uid, url=board)
    baseline = f", baselines {text(each.baseline)} for this prompt" if each.baseline == each.baseline else ""
    return Markup(
        '<article><h3>step {step}: {value}{baseline} <a href="{link}">{uid}</a></h3>'
        "<h4>Prompt</h4><pre>{prompt}</pre><h4>Response</h4><pre>{response}</pre></article>"
    ).format(
        step=f"{each.step:,}",
        value=text(each.value),
        baseline=baseline,
        link=link,
        uid=each.uid,
        prompt=_shown(found.prompt),
        response=_shown(found.response),
    )


def _shown(logged: str | None) -> Markup:
    if logged is None:
        return Markup("<i>cannot be read any more, or is not logged</i>")
    if len(logged) <= MAX_CHARS:
        return escape(logged)
    half = MAX_CHARS // 2
    left = len(logged) - 2 * half
    return Markup("{}<i> … {} characters left out … </i>{}").format(
        logged[:half], f"{left:,}", logged[-half:]
    )
