"""A gate's result as files: one HTML page that needs no server, or JUnit XML for CI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup, escape

from rlpanel.board_url import USUAL_ADDRESS, board_link
from rlpanel.gate.gate_result import (
    CANNOT_TELL,
    WORSE,
    GateResult,
    GateSample,
    NumberResult,
    p_text,
    size_text,
)
from rlpanel.number_text import number as text

# -- gate junit ----------------------------------------------------------------------------------------
# A gate's result as JUnit XML: one test case for each number.


def junit_text(result: GateResult) -> str:
    """Return the document: a worse number is a failure, and one that cannot be told is skipped."""
    cases = result.numbers
    suite = ElementTree.Element(
        "testsuite",
        name=_allowed(f"rlpanel gate {result.run}"),
        tests=str(max(len(cases), 1)),
        failures=str(result.count(WORSE)),
        errors="0",
        skipped=str(result.count(CANNOT_TELL) if cases else 1),
    )
    for number in cases:
        _add_case(suite, result, number)
    if not cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_allowed(result.run), name="any number")
        ElementTree.SubElement(case, "skipped", message=_allowed(result.sentence))
    output = ElementTree.SubElement(suite, "system-out")
    output.text = _allowed("\n".join((result.sentence, *result.notes)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_case(suite: ElementTree.Element, result: GateResult, number: NumberResult) -> None:
    name = _allowed(number.number.name)
    case = ElementTree.SubElement(suite, "testcase", classname=_allowed(result.run), name=name)
    if number.state == WORSE and number.contrast is not None:
        window = number.windows[number.first_window - 1]
        failure = ElementTree.SubElement(case, "failure", type="worse", message=_allowed(number.sentence))
        lines = [
            f"window: {number.first_window} of {len(number.windows)}, steps {window.first} to {window.last}",
            f"first step: {number.first_step}",
            f"effect: {number.contrast.effect:.6g} ({number.number.scale})",
            f"standard error: {number.contrast.error:.6g}",
            f"p: {p_text(number.p).removeprefix('p ').removeprefix('= ')}",
            *(f"sample: {each.uid} of step {each.step}, {each.value:.6g}" for each in number.samples),
        ]
        failure.text = _allowed("\n".join(lines))
    elif number.state == CANNOT_TELL:
        ElementTree.SubElement(case, "skipped", message=_allowed(number.sentence))
    else:
        ElementTree.SubElement(case, "system-out").text = _allowed(number.sentence)


def _allowed(text: str) -> str:
    """Replace the characters that XML 1.0 does not allow, such as control characters."""
    return "".join(char if char in "\n\t" or _is_allowed(ord(char)) else "\ufffd" for char in text)


def _is_allowed(code: int) -> bool:
    return 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


# -- window chart --------------------------------------------------------------------------------------
# A number over the windows as an SVG: the new run, its baselines, and the spread for one more run.


_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 220, 64, 12, 12, 28
#: Most of the plotted height that a limit of the spread may lie outside of the runs' values.
_BEYOND = 0.75


def window_chart(result: NumberResult, run: str) -> Markup:
    """Return the chart; limits far outside of the values are cut at its edge."""
    windows = result.windows
    values = [[each.new for each in windows]]
    values += [list(each) for each in zip(*(each.baselines for each in windows), strict=True)]
    known = [value for line in values for value in line if math.isfinite(value)]
    if not known:
        return Markup("")
    low, high = min(known), max(known)
    room = (high - low) or abs(high) * 0.1 or 1.0
    limits = [each for one in windows for each in (one.low, one.high) if math.isfinite(each)]
    low = max(min([low, *limits]), low - _BEYOND * room) - 0.05 * room
    high = min(max([high, *limits]), high + _BEYOND * room) + 0.05 * room

    def x(at: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at + 0.5) / len(windows)

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)

    def line(points: list[float], kind: str) -> Markup:
        places = " ".join(
            f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(points) if math.isfinite(value)
        )
        return Markup('<polyline class="{}" points="{}"/>').format(kind, places)

    parts = []
    if all(math.isfinite(each.low) for each in windows):
        edge = [(x(at), y(each.high)) for at, each in enumerate(windows)]
        edge += [(x(at), y(each.low)) for at, each in reversed(list(enumerate(windows)))]
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in edge)
        parts.append(Markup('<polygon class="spread" points="{}"/>').format(points))
    is_log = result.number.scale == "log"
    for value in [low + (high - low) * at / 4 for at in range(5)] if is_log else round_ticks(low, high):
        parts.append(
            Markup('<line class="rule" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                _LEFT, _WIDTH - _RIGHT, f"{y(value):.1f}", f"{y(value):.1f}"
            )
        )
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
                _LEFT - 6, f"{y(value) + 4:.1f}", text(result.number.natural(value))
            )
        )
    parts += [line(each, "baseline") for each in values[1:]]
    parts.append(line(values[0], "new"))
    every = max(1, math.ceil(len(windows) / 10))
    for at, each in enumerate(windows):
        if at % every == 0:
            label = f"{each.first:,}" if each.first == each.last else f"{each.first:,}–{each.last:,}"
            parts.append(
                Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    f"{x(at):.1f}", _HEIGHT - 8, label
                )
            )
    if result.first_window:
        left = x(result.first_window - 1)
        parts.append(
            Markup('<line class="begin" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                f"{left:.1f}", _TOP, _HEIGHT - _BOTTOM
            )
        )
    label = f"{result.number.name} by steps of {run}: the new run against its baselines"
    return Markup(
        '<figure><div class="chart"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div>'
        "<figcaption>"
        '<span class="key new"></span>{} <span class="key baseline"></span>baselines '
        '{}<span class="note">mean of each window by steps of the new run{}</span></figcaption></figure>'
    ).format(
        _WIDTH,
        _HEIGHT,
        label,
        Markup("").join(parts),
        run,
        Markup('<span class="key spread"></span>95 % range for one more run ') if limits else "",
        ", logarithmic" if is_log else "",
    )


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most some multiples of 1, 2 or 5 times a power of ten within a range."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    width = next(power * each for each in (1, 2, 5, 10, 20) if (high - low) / (power * each) <= most - 1)
    return [width * at for at in range(math.ceil(low / width), math.floor(high / width) + 1)]


# -- gate page -----------------------------------------------------------------------------------------
# A gate's result as one HTML file that needs no server and no network; texts of logs are escaped.


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
