"""A gate's result as JUnit XML: one test case for each number."""

from __future__ import annotations

from xml.etree import ElementTree

from rlpanel.gate.gate_result import CANNOT_TELL, WORSE, GateResult, NumberResult, p_text


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
