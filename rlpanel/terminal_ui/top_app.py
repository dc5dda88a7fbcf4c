"""`rlpanel top`: runs, curves, findings and samples in a terminal, and a screen of its keys."""

from __future__ import annotations

import os
import threading
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from rlpanel.queries.runs import runs
from rlpanel.queries.table import Table
from rlpanel.runtime import default_runtime
from rlpanel.settings import Watching
from rlpanel.terminal_ui.run_list_screen import RunListScreen
from rlpanel.terminal_ui.run_screen import RunScreen

# -- help screen ---------------------------------------------------------------------------------------
# The keys of `rlpanel top`, as a screen over the others.


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


# -- top app -------------------------------------------------------------------------------------------
# `rlpanel top`: runs, curves, findings, samples and tokens in a terminal, live, over ssh and in tmux.


#: Seconds that the list waits for the reader.
MAX_WAIT = 60.0


class TopApp(App[None]):
    """The program.

    Parameters
    ----------
    root : str
        Folder of runs.
    run : str
        Folder of the run to begin with; empty for the list.
    every : float
        Seconds between two readings of the list.
    pause : float
        Seconds between two drawings of a run while lines arrive.
    """

    TITLE = "rlpanel"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("question_mark", "help", "Keys"), ("q", "quit", "Quit")]

    def __init__(self, root: str, run: str = "", *, every: float = 5.0, pause: float = 0.5) -> None:
        super().__init__()
        self._root, self._run, self._every, self._pause = root, run, every, pause
        self._listed = threading.Event()

    def on_mount(self) -> None:
        """Show the list of runs, and a run on top of it if one was given."""
        runtime = default_runtime()
        runtime.reader.listen(lambda run: self._listed.set() if run is None else None)
        self._watched = runtime.reader.watch_root(self._root)
        if Watching.from_environment().check:
            runtime.checks.watch(self._watched)
        self.push_screen(RunListScreen(self._read, self.show_run, self._every))
        if self._run:
            self.show_run(self._run, self._run.rstrip("/").rpartition("/")[2])

    def _read(self, sort: str, limit: int | None, megabytes: int) -> Table:
        # The reader lists the folder as often as its size allows; a folder that is missing has no list.
        if os.path.isdir(self._root):
            self._listed.wait(MAX_WAIT)
        summaries, found = default_runtime().summaries, self._watched.runs
        return runs(self._root, sort=sort, limit=limit, read=megabytes, summaries=summaries, found=found)

    def show_run(self, path: str, name: str) -> None:
        """Show a run on top of the list."""
        self.push_screen(RunScreen(path, name, self._pause))

    def action_help(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())


def run_top(root: str, run: str = "") -> None:
    """Run the program until the user quits; the parameters are those of `TopApp`."""
    try:
        TopApp(root, run).run()
    finally:
        default_runtime().close()
