"""The keys of `rlpanel top`, as a screen over the others."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

#: Key and meaning, by the screen on which they apply.
KEYS = {
    "Everywhere": (
        ("?", "these keys"),
        ("escape", "back"),
        ("q", "quit"),
        ("/", "filter: names of runs, or samples as on the board (reward < 0 and lang == 'zh')"),
        ("↑ ↓ PgUp PgDn", "move"),
        ("Enter", "open what is marked"),
    ),
    "Runs": (("s", "next order: newest, name, reward, step, findings"), ("r", "read the list again")),
    "Run": (
        ("1 2 3", "curves, findings, samples"),
        ("[ ]", "the step before, the next step"),
        ("f", "follow the newest step"),
        ("a", "samples of all steps"),
        ("s", "next order of samples"),
        ("Enter on a finding", "its samples: worst or first step, filter and order"),
    ),
    "Sample": (
        ("1 2 3", "tokens, conversation, numbers"),
        ("m", "next token metric"),
        ("n p", "next sample, sample before"),
    ),
}


def help_text() -> Text:
    """Return the keys in aligned lines."""
    width = max(len(key) for keys in KEYS.values() for key, _ in keys)
    found = Text()
    for place, keys in KEYS.items():
        found.append(f"{place}\n", "bold")
        for key, meaning in keys:
            found.append(f"  {key:<{width}}  ", "cyan")
            found.append(f"{meaning}\n")
    found.append("Marks of runs: ● alarm  ○ warning  ✓ no finding  ? not checked yet", "dim")
    return found


class HelpScreen(ModalScreen[None]):
    """The keys; any of ?, escape or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,q", "dismiss", "Close")]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 90%; max-width: 86; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        """Show the keys in a box."""
        with VerticalScroll():
            yield Static(help_text())
