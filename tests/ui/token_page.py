"""The token view on its own page, and what the browser shows, for comparison with expected values."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import panel as pn
from playwright.sync_api import expect

from rlpanel.panels.tokens.token_view import TokenView
from rlpanel.panels.ui import theme
from rlpanel.schema import ARRAYS, Sample
from tests.conftest import VIEWPORT
from tests.ui.board import PATIENCE, free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from playwright.sync_api import Locator, Page, WebSocket

LINES = Path(__file__).parents[1] / "data" / "tokens"

RGB = tuple[int, int, int]


def raw_line(number: int, run: str = "ppo") -> dict[str, Any]:
    """Return a line of a recorded PPO run (0 is English, 1 Chinese), or of one with byte-level tokens.

    Of the latter, 0 is code, 1 Chinese with emoji, 2 English; its numbers are random.
    """
    return json.loads((LINES / f"{run}_lines.jsonl").read_text("utf-8").splitlines()[number])


def make_sample(line: dict[str, Any]) -> Sample:
    arrays = {name: np.array(line[name], float) for name in ARRAYS if isinstance(line.get(name), list)}
    return Sample(
        uid="rank_0.jsonl:0", step=int(line.get("step", 1)), response=line.get("response"),
        response_tokens=line.get("response_tokens"), **arrays,
    )  # fmt: skip


def generated(tokens: list[str], seed: int = 0) -> Sample:
    """Return a sample with these tokens and generated log-probabilities."""
    chance = np.random.default_rng(seed)
    logprobs = -chance.exponential(1.0, len(tokens))
    ref = logprobs - chance.standard_t(3, len(tokens)) * 0.3
    return Sample(uid="rank_0.jsonl:0", step=1, response_tokens=tokens, logprobs=logprobs, ref_logprobs=ref)


def metrics(line: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the expected value of each metric, computed from the raw line in plain numpy."""
    raw = {name: np.array(value, float) for name, value in line.items() if name in _LOGGED}
    found = {_LOGGED[name]: array for name, array in raw.items() if _LOGGED[name]}
    policy, reference, before = (raw.get(name) for name in ("logprobs", "ref_logprobs", "old_logprobs"))
    if policy is not None:
        found |= {"prob": np.exp(policy), "surprisal": -policy}
    if reference is not None:
        found["ref_prob"] = np.exp(reference)
    if policy is not None and before is not None:
        found["ratio"] = np.exp(policy - before)
    if policy is not None and reference is not None:
        ratio = policy - reference
        bounded = np.clip(ratio, -20, 20)
        found |= {
            "log_ratio": ratio,
            "kl_k3": np.expm1(-bounded) + bounded,
            "kl_k2": ratio**2 / 2,
            "kl_rllb": np.expm1(bounded) - bounded,
        }
    return found


#: Keys of a raw line, and the rows that show them unchanged.
_LOGGED = {
    "logprobs": "logprob",
    "ref_logprobs": "ref_logprob",
    "old_logprobs": "",
    "values": "value",
    "token_rewards": "token_reward",
    "advantages": "token_advantage",
    "returns": "token_return",
    "entropy": "token_entropy",
}


class TokenPage:
    """A served `TokenView`, open in a browser."""

    def __init__(self, page: Page, view: TokenView) -> None:
        self.page, self.view = page, view
        self.text = page.locator(".rl-tokens-text")
        self.tip = page.locator(".rl-tip")
        self.strip = page.locator("canvas.rl-strip")

    def token(self, i: int) -> Locator:
        return self.page.locator(f'[data-i="{i}"]')

    def chip(self, name: str) -> Locator:
        return self.page.locator(f'[data-metric="{name}"]')

    def cells(self) -> list[tuple[RGB | None, RGB]]:
        """Return background colour (None if it has none) and text colour of every drawn token."""
        found = self.page.locator("[data-i]").evaluate_all(
            "spans => spans.map(getComputedStyle).map(s => [s.backgroundColor, s.color])"
        )
        return [(_rgb(background), _rgb(ink) or (0, 0, 0)) for background, ink in found]

    def backgrounds(self) -> tuple[list[int], np.ndarray]:
        """The drawn tokens and their backgrounds, shape (n, 3)."""
        found = self.page.locator("[data-i]").evaluate_all(
            "spans => spans.map(s => [Number(s.dataset.i), getComputedStyle(s).backgroundColor])"
        )
        return [i for i, _ in found], np.array([_rgb(background) for _, background in found], dtype=float)

    def strip_colors(self, row: int, cells: int) -> list[RGB]:
        """Return the colour in the middle of each cell of a row of the strip."""
        pixels = self.strip.evaluate(
            """(canvas, [row, cells]) => Array.from({length: cells}, (_, i) => {
                const ratio = canvas.width / canvas.clientWidth;
                const x = ((i + 0.4) / cells) * canvas.width, y = (row * 18 + 7) * ratio;
                return Array.from(canvas.getContext("2d").getImageData(x, y, 1, 1).data).slice(0, 3);
            })""",
            [row, cells],
        )
        return [tuple(pixel) for pixel in pixels]

    def tip_values(self) -> dict[str, str]:
        """Return the values in the open card, by metric name, without units."""
        return self.tip.locator("[data-row]").evaluate_all(
            "ps => Object.fromEntries(ps.map(p => [p.dataset.row, p.querySelector('dd').firstChild.data]))"
        )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _rgb(css: str) -> RGB | None:
    parts = [float(part) for part in re.findall(r"[\d.]+", css)]
    return None if len(parts) == 4 and parts[3] == 0 else (int(parts[0]), int(parts[1]), int(parts[2]))


class TokenTab:
    """A page that draws one `TokenView` after the other, each from scratch.

    Attributes
    ----------
    page : Page
    received, sent : list
        Frames of the page's websocket; opening a view clears both lists.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.received: list[str | bytes] = []
        self.sent: list[str | bytes] = []
        self._params: dict[str, Any] | None = None
        self._column = pn.Column()
        page.on("websocket", self._listen)

    def __enter__(self) -> TokenTab:
        port, loaded = free_port(), Event()  # earlier messages could be taken for browser state

        def app() -> pn.viewable.Viewable:
            pn.state.onload(loaded.set)
            views = [] if self._params is None else [TokenView(**self._params)]
            self._column = pn.Column(*views, sizing_mode="stretch_width")
            return self._column

        self._server = pn.serve(app, port=port, threaded=True, show=False, verbose=False)
        wait_until(lambda: _listens(port), message="the server listens")
        self.page.goto(f"http://127.0.0.1:{port}/")
        wait_until(loaded.is_set, PATIENCE, "the page is loaded", page=self.page)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def forget(self) -> None:
        """Reset the browser's stored state."""
        self.page.evaluate("localStorage.clear()")
        self.page.set_viewport_size(VIEWPORT)
        self.page.mouse.move(0, 0)

    def open(self, **params: Any) -> TokenPage:
        """Draw a view with these parameters; a reload draws it again."""
        self._column[:] = []
        expect(self.page.locator(".rl-tokens")).to_have_count(0)
        self._params, view = params, TokenView(**params)
        self._column[:] = [view]
        self.page.locator(".rl-tokens[data-state]").wait_for()
        self.received.clear()
        self.sent.clear()
        return TokenPage(self.page, view)

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: self.received.append(frame))
        socket.on("framesent", lambda frame: self.sent.append(frame))


# --- expected colours, computed from the theme, the raw line and the papers --------------------------

_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def hex_rgb(text: str) -> np.ndarray:
    return np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)])


def linear(rgb: np.ndarray) -> np.ndarray:
    c = np.asarray(rgb) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: RGB, other: RGB) -> float:
    """Return the WCAG contrast of two colours."""
    low, high = sorted(float(linear(np.array(c)) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def expected_colors(
    values: np.ndarray, *, diverging: bool, color: str, dark: bool, around: float = 0.0, sure: bool = False
) -> np.ndarray:
    """Return the colours of a row on its own robust scale, shape (T, 3)."""
    colors = theme.palette(dark)
    off = values - around if diverging else values
    lo, hi = np.percentile(off, 1, method="higher"), np.percentile(off, 99, method="lower")
    if diverging and off.min() > 0 and lo > hi / 4:  # far from zero: its own range, in the colour of its side
        share = np.clip((off - lo) / (hi - lo), 0, 1)
        ends = np.broadcast_to(to_lab(colors["policy"]), (len(values), 3))
    elif diverging:
        share = np.clip(off / max(abs(lo), abs(hi)), -1, 1)
        ends = np.where(share[:, None] < 0, to_lab(colors["reference"]), to_lab(colors["policy"]))
    else:
        share = np.clip((off - lo) / (hi - lo), 0, 1)
        share = 1 - share if sure or abs(lo) > abs(hi) else share
        ends = np.broadcast_to(to_lab(colors[color]), (len(values), 3))
    middle = to_lab(colors["surface"])
    return _from_lab(middle + (ends - middle) * np.abs(share)[:, None] * 0.86)


def to_lab(color: str | RGB) -> np.ndarray:
    """Return a hex colour or three bytes in OKLab (Ottosson 2020)."""
    rgb = hex_rgb(color) if isinstance(color, str) else np.array(color, float)
    return _LAB @ np.cbrt(_LMS @ linear(rgb))


def _from_lab(lab: np.ndarray) -> np.ndarray:
    c = np.clip((np.linalg.inv(_LMS) @ (np.linalg.inv(_LAB) @ lab.T) ** 3).T, 0, 1)
    return 255 * np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055)
