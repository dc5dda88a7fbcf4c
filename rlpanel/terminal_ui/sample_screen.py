"""One sample: its tokens coloured by a metric, its conversation, and its numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static, TabbedContent, TabPane

from rlpanel.analysis.text_turns import Conversation
from rlpanel.errors import RLPanelError
from rlpanel.number_text import number
from rlpanel.schema import TEXTS
from rlpanel.terminal_ui.run_feed import RunFeed, ShownSample, unit_of
from rlpanel.terminal_ui.token_colors import (
    block,
    chosen_metric,
    colored_tokens,
    legend,
    strongest,
    text_cell,
)
from rlpanel.texts.agent_line import written_call

_COLORS = {"user": "blue", "assistant": "green", "system": "magenta", "tool": "yellow"}


def conversation_text(conversation: Conversation) -> Text:
    """Return the messages in order, each under its role.

    Parameters
    ----------
    conversation : Conversation
    """
    found = Text(overflow="fold")
    for at, message in enumerate(conversation.messages):
        if at == conversation.prompt_messages:
            found.append("──── response ────\n", "bold")
        role = str(message["role"])
        found.append_text(text_cell(role.upper(), f"bold {_COLORS.get(role, 'cyan')}", 80))
        found.append("\n")
        if reasoning := message.get("reasoning_content"):
            found.append_text(block(str(reasoning), "dim italic"))
            found.append("\n")
        if content := message.get("content"):
            found.append_text(block(str(content)))
            found.append("\n")
        for call in message.get("tool_calls") or ():
            found.append_text(block(f"→ {written_call(str(call['name']), str(call['arguments']))}", "yellow"))
            found.append("\n")
        for key in ("images", "media"):
            if message.get(key):
                found.append(f"[{len(message[key])} {key}, shown on the board]\n", "dim")
        found.append("\n")
    if conversation.from_text:
        found.append("The turns were found in the texts by the markup of the chat template.", "dim")
    return found if conversation.messages else Text("No text is logged for this sample", "dim")


_TABS = ("tokens", "conversation", "numbers")


class SampleScreen(Screen[None]):
    """A sample of a table.

    Parameters
    ----------
    feed : RunFeed
    uids : sequence of str
        The samples of the table, for the keys n and p.
    at : int
        Place of the sample in it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('tokens')", "Tabs", key_display="1 2 3"),
        Binding("2", "tab('conversation')", "Conversation", show=False),
        Binding("3", "tab('numbers')", "Numbers", show=False),
        ("m", "metric", "Metric"),
        Binding("n", "move(1)", "Samples", key_display="n p"),
        Binding("p", "move(-1)", "Before", show=False),
        ("escape", "app.pop_screen", "Back"),
        ("question_mark", "app.help", "Keys"),
        ("q", "app.quit", "Quit"),
    ]
    DEFAULT_CSS = """
    SampleScreen #title { height: 1; padding: 0 1; }
    SampleScreen TabPane { padding: 0 1; }
    SampleScreen TabbedContent { height: 1fr; }
    SampleScreen ContentSwitcher { height: 1fr; }
    """

    def __init__(self, feed: RunFeed, uids: Sequence[str], at: int) -> None:
        super().__init__()
        self._feed, self._uids, self._at = feed, list(uids), at
        self._metric = ""
        self.shown: ShownSample | None = None

    def compose(self) -> ComposeResult:
        """Lay out the title, three tabs and the keys."""
        yield Static("", id="title")
        with TabbedContent(initial="tokens"):
            for name in _TABS:
                with TabPane(name.capitalize(), id=name), VerticalScroll():
                    yield Static("", id=f"{name}-text")
        yield Footer()

    def on_mount(self) -> None:
        """Read the sample."""
        self._read()

    def _read(self) -> None:
        self.run_worker(self._load(self._uids[self._at]), group="sample", exclusive=True)

    async def _load(self, uid: str) -> None:
        try:
            self.shown = await asyncio.to_thread(self._feed.sample, uid)
        except RLPanelError as error:
            self.query_one("#title", Static).update(text_cell(str(error), "red", 300))
            return
        self._draw(self.shown)

    def _draw(self, shown: ShownSample) -> None:
        sample = shown.sample
        reward = shown.numbers.get("reward")
        line = text_cell(sample.uid, "bold", 120)
        line.append(f"  {self._at + 1:,} of {len(self._uids):,} · step {sample.step}")
        line.append("" if reward is None else f" · reward {number(reward)}")
        line.append(f" · {len(shown.tokens):,} tokens" if shown.tokens else "")
        self.query_one("#title", Static).update(line)
        self.query_one("#tokens-text", Static).update(self._tokens(shown))
        self.query_one("#conversation-text", Static).update(conversation_text(shown.conversation))
        self.query_one("#numbers-text", Static).update(_numbers(shown))

    def _tokens(self, shown: ShownSample) -> Text:
        if not shown.tokens:
            return block(shown.sample.response or "", "") + Text(
                "\nNo tokens are logged for this sample", "dim"
            )
        metric = chosen_metric(list(shown.metrics), self._metric)
        if not metric:
            return block("".join(shown.tokens)) + Text("\nNo token metric is logged for this sample", "dim")
        light, values, scale = not self.app.current_theme.dark, shown.metrics[metric], shown.scales[metric]
        found = legend(metric, scale, unit_of(metric), light=light)
        if any(shown.untrained):
            found.append("   dim: the loss leaves it out", "dim")
        found.append("\n\n")
        found.append_text(
            colored_tokens(shown.tokens, values, metric, scale, untrained=shown.untrained, light=light)
        )
        found.append("\n\nstrongest\n", "bold")
        for at, text, value in strongest(shown.tokens, values, metric, scale, 8):
            found.append(f"{at:>7,}  {number(value):>9}  {text}\n")
        return found

    def action_tab(self, name: str) -> None:
        """Show a tab, and give it the keys."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name}", TabPane).query_one(VerticalScroll).focus()

    def action_metric(self) -> None:
        """Colour by the next metric."""
        if self.shown is None or not self.shown.metrics:
            return
        names = list(self.shown.metrics)
        at = names.index(chosen_metric(names, self._metric))
        self._metric = names[(at + 1) % len(names)]
        self._draw(self.shown)

    def action_move(self, by: int) -> None:
        """Show the next sample of the table, or the one before."""
        self._at = min(max(self._at + by, 0), len(self._uids) - 1)
        self._read()


def _numbers(shown: ShownSample) -> Text:
    """Return the numbers and labels of a sample in aligned lines, and the texts that are no message."""
    numbers = {name: number(value) for name, value in shown.numbers.items()}
    width = max(map(len, numbers), default=0)
    found = Text()
    for name, value in numbers.items():
        found.append_text(text_cell(f"{name}", "", 80))
        found.append(f"{'':<{width - len(name)}}  {value}\n", "cyan")
    for note in shown.sample.notes:
        found.append_text(block(f"remark: {note}\n", "yellow"))
    for name in TEXTS:
        text = getattr(shown.sample, name)
        if text and name not in ("prompt", "response"):
            found.append(f"\n{name}\n", "bold")
            found.append_text(block(text))
            found.append("\n")
    return found
