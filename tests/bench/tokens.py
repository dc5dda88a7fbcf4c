"""Measures the token view in a browser: click → paint, change of metric, scrolling, bytes.

``python -m tests.bench.tokens`` prints a table for ``RESULTS.md``. Times are measured inside a headless
Chromium that draws in software, up to the frame after the one that shows the change.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from rlpanel.api.open_run import open_run
from rlpanel.panels.tokens.token_payload import pack_sample
from tests.bench.latency import chromium, served
from tests.conftest import QUIET, VIEWPORT

SIZES = (256, 4096, 32768)
ROUNDS = 6
WORDS = (" the", " quick", " brown", " fox", ".", "\n", " over", " a", " lazy", " dog", ",")

CLOCKS = """
() => {
  const deep = (root, selector) => {
    const here = root.querySelector(selector)
    if (here) { return here }
    for (const el of root.querySelectorAll("*")) {
      const found = el.shadowRoot && deep(el.shadowRoot, selector)
      if (found) { return found }
    }
  }
  const view = () => deep(document, ".rl-tokens")
  const painted = (begin, ready) => new Promise((done) => {
    const end = () => done(performance.now() - begin)
    const look = () => requestAnimationFrame(ready() ? end : look)
    look()
  })
  window.clickRow = (label) => {
    const cells = deep(document, ".tabulator-row").getRootNode().querySelectorAll(".tabulator-cell")
    const cell = [...cells].find((cell) => cell.textContent === label)
    const begin = performance.now()
    cell.click()
    return painted(begin, () => view().querySelector('[data-i="0"]')?.textContent === label)
  }
  window.clickMetric = (name) => {
    const chip = view().querySelector(`[data-metric="${name}"]`)
    const token = view().querySelector('[data-i="5"]')
    const before = token.style.backgroundColor
    const begin = performance.now()
    chip.click()
    return painted(begin, () => token.style.backgroundColor !== before)
  }
  window.scrollText = (pixels, frames) => new Promise((done) => {
    const text = view().querySelector(".rl-tokens-text")
    const stamps = []
    const next = (now) => {
      stamps.push(now)
      text.scrollTop += pixels
      if (stamps.length <= frames) { requestAnimationFrame(next) }
      else { done(stamps.slice(1).map((stamp, k) => stamp - stamps[k])) }
    }
    text.scrollTop = 0
    requestAnimationFrame(next)
  })
}
"""


def main() -> None:
    """Measure and print."""
    root = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
    try:
        write(root / "long")
        rows = sizes(root / "long")
        with served(root) as (url, server), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            rows += measure(browser.new_context(viewport=VIEWPORT).new_page(), url, server.pid)
            browser.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("| figure | value |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def write(folder: Path) -> None:
    """Write a step with responses of each size, each with a unique first token, numbers with six decimals."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as log:
        for size in SIZES:
            for number in range(ROUNDS):
                log.write(json.dumps(line(chance, size, f"{size}/{number}")) + "\n")


def line(chance: np.random.Generator, size: int, label: str) -> dict[str, Any]:
    """Return a sample with the rows of a PPO run."""
    logprobs = -chance.exponential(1.0, size)
    ref_logprobs = np.minimum(logprobs - 0.3 * chance.standard_t(3, size), 0.0)
    names = ("values", "token_rewards", "advantages", "returns")
    arrays = {name: chance.normal(size=size) for name in names}
    arrays |= {"logprobs": logprobs, "ref_logprobs": ref_logprobs}
    tokens = [label, *(WORDS[k] for k in chance.integers(0, len(WORDS), size - 1))]
    numbers = {name: array.round(6).tolist() for name, array in arrays.items()}
    return {"step": 1, "prompt": "p", "response": label, "reward": 1.0, "response_tokens": tokens} | numbers


def sizes(folder: Path) -> list[tuple[str, str]]:
    """Return the bytes per token that are sent to the browser."""
    run = open_run(folder, follow=False)
    found = []
    for uid in run.samples().groupby("response_tokens").uid.first():
        packed = pack_sample(run.sample(uid))
        bytes_ = sum(len(part) for part in packed.values() if isinstance(part, bytes))
        bytes_ += sum(len(part["data"]) for part in packed["inputs"].values())
        found.append(f"{bytes_ / packed['cells']:.1f}")
    return [(f"bytes a token, 11 rows, {' / '.join(map(str, SIZES))} tokens", " / ".join(found))]


def measure(page: Page, url: str, server: int) -> list[tuple[str, str]]:
    """Measure click → paint, a change of metric with its received bytes, and frames while scrolling."""
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: received.append(len(data))))
    page.goto(f"{url}/?run=long&step=1")
    page.locator("[data-uid]").wait_for()
    page.locator(".tabulator-cell", has_text=f"{SIZES[0]}/1").first.wait_for()
    page.wait_for_timeout(2000)
    page.evaluate(CLOCKS)
    rows = []
    for size in SIZES:
        paints, metrics, work, sent = [], [], [], 0
        for number in range(1, ROUNDS):  # the first sample is already shown
            label = f"{size}/{number}"
            before = (worked(server), drawn(clock))
            paints.append(page.evaluate("(label) => window.clickRow(label)", label))
            page.wait_for_timeout(500)
            work.append((worked(server) - before[0], drawn(clock) - before[1]))
            received.clear()
            for name in ("prob", "kl_k3", "value", "log_ratio"):
                metrics.append(page.evaluate("(name) => window.clickMetric(name)", name))
                page.wait_for_timeout(200)
            sent = sum(received)
        frames = page.evaluate("() => window.scrollText(30, 240)")
        rows += [
            (f"sample click → paint, {size:,} tokens, median / worst", spread(paints)),
            (f"processor time of it, {size:,} tokens, server + page", " + ".join(middles(work))),
            (f"change of metric, {size:,} tokens, median / worst", spread(metrics)),
            (f"bytes received for four changes of metric, {size:,} tokens", f"{sent:,}"),
            (f"frames while scrolling {size:,} tokens: a second, over 20 ms, longest", rate(frames)),
        ]
    return rows


def worked(pid: int) -> float:
    """Return the processor time of a process so far, in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drawn(clock: CDPSession) -> float:
    """Return the processor time of the page's main thread so far, in ms."""
    known = {entry["name"]: entry["value"] for entry in clock.send("Performance.getMetrics")["metrics"]}
    return 1000 * known["TaskDuration"]


def middles(pairs: list[tuple[float, float]]) -> list[str]:
    return [f"{statistics.median(column):.0f} ms" for column in zip(*pairs, strict=True)]


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} / {max(times):.0f} ms"


def rate(frames: list[float]) -> str:
    slow = sum(frame > 20 for frame in frames) / len(frames)
    return f"{1000 * len(frames) / sum(frames):.1f}, {slow:.0%}, {max(frames):.0f} ms"


if __name__ == "__main__":
    main()
