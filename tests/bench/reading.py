"""Measures how a long rollout opens and scrolls in a browser: 1,000 turns and 5 MB at the full size.

python -m tests.bench.reading [--against PATH] [--rounds N] [--size SIZE] [--record]

*Opened* is the time from the change of the address until the first turn and the outline are painted, in a
page that shows another sample; *link* is the same from an empty page, which loads all of the board.
"""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.bench.harness import Figures, Task, run
from tests.bench.served import chromium, served
from tests.conftest import QUIET, VIEWPORT
from tests.conversations import episode, long_episode, write_agent_run

#: How often the rollout is opened; the figure is the median.
TIMES = 5
#: Goes to an address as Back does; returns the milliseconds until the rollout's first turn is painted.
#: The conversation is looked up once: a search through all of the page costs more than the drawing.
OPEN = """async ([query, turns]) => {
  const deep = (root, selector) => {
    const found = root.querySelector(selector)
    if (found) return found
    for (const node of root.querySelectorAll("*")) {
      const inner = node.shadowRoot && deep(node.shadowRoot, selector)
      if (inner) return inner
    }
    return null
  }
  const began = performance.now()
  let root = deep(document, ".rl-conversation")
  if (query) {
    history.pushState({}, "", location.pathname + query)
    window.dispatchEvent(new PopStateEvent("popstate"))
  }
  for (;;) {
    await new Promise((resolve) => requestAnimationFrame(resolve))
    if (performance.now() - began > 60_000) return -1
    if (!root?.isConnected) root = deep(document, ".rl-conversation")
    const head = root?.querySelector(".outline-head b")
    const body = root?.querySelector('section.message[aria-label="assistant 1"] .body')
    if (head?.textContent === `Turns ${turns}` && body?.childElementCount && body.offsetHeight) break
  }
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
  return query ? performance.now() - began : performance.now()
}"""
#: Scrolls through the whole rollout, a screen a frame; returns the milliseconds of its frames and long tasks.
SCROLL = """async () => {
  const deep = (root, selector) => {
    const found = root.querySelector(selector)
    if (found) return found
    for (const node of root.querySelectorAll("*")) {
      const inner = node.shadowRoot && deep(node.shadowRoot, selector)
      if (inner) return inner
    }
    return null
  }
  const list = deep(document, ".rl-conversation .list")
  const tasks = []
  const note = (found) => tasks.push(...found.getEntries().map((each) => each.duration))
  const observer = new PerformanceObserver(note)
  observer.observe({ type: "longtask" })
  const frames = []
  let before = performance.now()
  while (list.scrollTop + list.clientHeight < list.scrollHeight - 4 && frames.length < 5000) {
    list.scrollTop += list.clientHeight
    await new Promise((resolve) => requestAnimationFrame(resolve))
    const now = performance.now()
    frames.push(now - before)
    before = now
  }
  await new Promise((resolve) => setTimeout(resolve, 100))
  const messages = [...list.querySelectorAll(".message")]
  return { frames, tasks, messages: messages.length, nodes: list.querySelectorAll("*").length }
}"""


def prepare(task: Task) -> None:
    """Write a run with a long rollout, and one with a short one."""
    turns = task.pick(20, 200, 1000)
    write_agent_run(task.data / "long", episode(), long_episode(turns, 5000))


def measure(task: Task) -> Figures:
    """Open and scroll the long rollout."""
    turns = task.pick(20, 200, 1000) + 1
    with served(task.linked("long").parent) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        page = browser.new_context(viewport=VIEWPORT).new_page()
        lines = (task.data / "long" / "rollout_data_rank_0.jsonl").read_bytes()
        short, long = (_address(at) for at in (0, lines.index(b"\n") + 1))
        page.goto(server.url + "/" + short)
        page.wait_for_function("() => window.rlpanel?.settled().then(() => true)", polling=50)
        opened = []
        worked = server.seconds
        for _ in range(TIMES):
            opened.append(_opened(page, long, turns))
            _opened(page, short, 3)
        seconds = (server.seconds - worked) / TIMES
        page.goto(server.url + "/" + long, wait_until="commit")
        link = page.evaluate(OPEN, ["", turns])
        page.wait_for_function("() => window.rlpanel?.settled().then(() => true)", polling=50)
        scroll: dict[str, Any] = page.evaluate(SCROLL)
        browser.close()
    frames = sorted(scroll["frames"])
    return {
        "opened, ms": statistics.median(opened),
        "opened for the first time, ms": opened[0],
        "link, ms": link,
        "server for an opening and another sample, CPU s": seconds,
        "frame while scrolling, median, ms": statistics.median(frames),
        "frame while scrolling, 99th percentile, ms": frames[int(0.99 * (len(frames) - 1))],
        "longest task while scrolling, ms": max(scroll["tasks"], default=0.0),
        "messages in the page after scrolling": scroll["messages"],
        "elements after scrolling": scroll["nodes"],
    }


def _address(offset: int) -> str:
    return f"?run=long&step=1&sample=rollout_data_rank_0.jsonl%3A{offset}&page=samples&tab=conversation"


def _opened(page: Page, address: str, turns: int) -> float:
    taken = float(page.evaluate(OPEN, [address, turns]))
    if taken < 0:
        raise TimeoutError(address)
    page.wait_for_function("() => window.rlpanel?.settled().then(() => true)", polling=50)
    return taken


if __name__ == "__main__":
    run(measure, prepare)
