"""Measures how long large samples of agents take to open in the board.

    python -m tests.bench.conversation [--record]

A conversation of 200 turns and 1 MB, and one of 200,000 tokens in 41 turns: CPU time of packing them on the
server, and the time from a click on the sample until its first message, and in the mode *Tokens* its first
tokens, are drawn in a headless Chromium. ``--record`` writes the results to RESULTS.md.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from rlpanel import open_run
from rlpanel.panels.conversation.conversation_payload import pack_conversation
from tests.bench.latency import chromium, served
from tests.bench.results import record
from tests.conftest import QUIET, VIEWPORT
from tests.conversations import long_episode, write_agent_run
from tests.factories import sample
from tests.ui.board import BoardPage

TIMES = 5
Row = tuple[str, str, str]


def token_episode(turns: int = 20, tokens: int = 5_000) -> dict[str, Any]:
    """Return a sample whose policy and tool wrote ``tokens`` tokens in turn, ``2 * turns`` times."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
    texts: list[str] = []
    mask: list[int] = []
    for turn in range(2 * turns):
        words = [f" {turn}-{at}" for at in range(tokens)]
        messages.append({"role": "tool" if turn % 2 else "assistant", "content": "".join(words)})
        texts += words
        mask += [1 - turn % 2] * tokens
    logprobs = [-(at % 97) / 50 for at in range(len(texts))]
    return {
        "step": 1,
        "messages": messages,
        "prompt_messages": 1,
        "reward": 1.0,
        "group": "tokens",
        "response_tokens": texts,
        "loss_mask": mask,
        "logprobs": logprobs,
        "ref_logprobs": logprobs[::-1],
    }


def measure(folder: Path) -> Iterator[Row]:
    """Yield one row per figure."""
    samples = {
        "200 turns, 1 MB": long_episode(turns=100, characters=10_000),
        "200,000 tokens": token_episode(),
    }
    for name, line in samples.items():
        run = write_agent_run(folder / _run_name(name), sample(1, reward=2.0, group="a"), line)
        yield f"{name}: packed by the server, CPU", f"{_packing(run):.0f} ms", ""
    with served(folder) as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        page = browser.new_page(viewport=VIEWPORT)
        for name in samples:
            text, tokens = _opening(page, url, _run_name(name))
            yield f"{name}: click → first message drawn, median of {TIMES}", f"{text:.0f} ms", "≤ 1,000 ms"
            if tokens:
                yield f"{name}: *Tokens* → first tokens drawn", f"{tokens:.0f} ms", ""
        browser.close()


def _run_name(name: str) -> str:
    return name.split()[0].replace(",", "")


def _packing(run: Path) -> float:
    """Return the milliseconds of CPU time for packing the run's second sample."""
    with open_run(run, follow=False) as opened:
        loaded = opened.sample(opened.samples().uid.iloc[1])
    begin = time.process_time()
    pack_conversation(loaded)
    return 1000 * (time.process_time() - begin)


def _opening(page: Page, url: str, run: str) -> tuple[float, float]:
    """Return the milliseconds until the sample's text, and then its tokens, are drawn."""
    board = BoardPage(page, url).open(run=run, step=1).settled()
    board.tab("Conversation")
    first = page.locator(".rl-conversation section.message")
    times = []
    for _ in range(TIMES):
        board.rows.nth(0).click()
        page.wait_for_function(_MESSAGES, arg=[0, 3])
        begin = time.perf_counter()
        board.rows.nth(1).click()
        page.wait_for_function(_MESSAGES, arg=[10, 10_000])
        times.append(1000 * (time.perf_counter() - begin))
    tokens = 0.0
    if page.locator('.mode[data-mode="tokens"]').is_enabled():
        begin = time.perf_counter()
        page.locator('.mode[data-mode="tokens"]').click()
        first.locator(".token").first.wait_for()
        tokens = 1000 * (time.perf_counter() - begin)
    return statistics.median(times), tokens


#: Whether the conversation has a number of messages, of which the second one is drawn.
_MESSAGES = """([least, most]) => {
    const find = (root) => {
        const found = root.querySelector(".rl-conversation .list")
        if (found) { return found }
        for (const node of root.querySelectorAll("*")) {
            const inside = node.shadowRoot && find(node.shadowRoot)
            if (inside) { return inside }
        }
    }
    const messages = find(document)?.querySelectorAll("section.message") ?? []
    const body = messages[1]?.querySelector(".body")
    return messages.length >= least && messages.length <= most && body?.textContent
}"""


def main() -> None:
    """Print the figures; with ``--record``, write them to RESULTS.md."""
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(Path(folder)))
    lines = ["| what | measured | goal |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    table = "\n".join(lines)
    print(table)
    if "--record" in sys.argv:
        record("Conversations", "`python -m tests.bench.conversation`,", table)


if __name__ == "__main__":
    main()
