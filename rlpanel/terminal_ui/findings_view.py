"""A widget: the findings of a run, each with evidence and advice; Enter shows its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from rlpanel.terminal_ui.run_marks import MARKS, SEVERITY_COLORS
from rlpanel.terminal_ui.safe_cells import block


class FindingsView(OptionList):
    """The findings; an option has the place of its finding in `findings` as its index."""

    DEFAULT_CSS = """
    FindingsView { height: 1fr; border: none; padding: 0; background: $background; }
    FindingsView:focus { border: none; background-tint: $background 0%; }
    FindingsView > .option-list--option-highlighted,
    FindingsView:focus > .option-list--option-highlighted {
        background: $boost; color: $text; text-style: none;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.findings: Sequence[Mapping[str, Any]] = ()

    def show(self, findings: Sequence[Mapping[str, Any]], *, is_read: bool) -> None:
        """Show findings; the highlighted one stays."""
        if findings == self.findings and self.option_count:
            return
        at = self.highlighted
        self.findings = findings
        self.clear_options()
        if not findings:
            text = "No findings in the complete steps" if is_read else "The run is still being read"
            self.add_option(Option(Text(text, "dim"), disabled=True))
            return
        for finding in findings:
            self.add_options([Option(finding_text(finding)), None])
        self.highlighted = min(at or 0, len(findings) - 1)


def finding_text(finding: Mapping[str, Any]) -> Text:
    """Return a finding: title, sentence, evidence, advice and what else was seen."""
    severity = str(finding["severity"])
    found = Text(overflow="fold")
    mark = MARKS.get(severity) or "·"
    found.append(f"{mark} {severity.upper()}  ", f"bold {SEVERITY_COLORS.get(severity, '')}".strip())
    found.append_text(block(str(finding["title"]), "bold"))
    found.append("\n")
    found.append_text(block(str(finding["sentence"])))
    for sentence in finding["evidence"]:
        found.append("\n")
        found.append_text(block(str(sentence), "dim"))
    if finding["advice"]:
        found.append("\n")
        found.append_text(block(f"Check next: {finding['advice']}", "italic"))
    for symptom in finding["symptoms"]:
        found.append("\n")
        found.append_text(block(f"Also seen: {symptom['sentence']}", "dim"))
    return found
