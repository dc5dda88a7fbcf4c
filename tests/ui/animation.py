"""Takes an animation of the board: one picture per frame, with a pointer where the mouse is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: The page is laid out 1280 pixels wide, and drawn 1000 pixels wide.
VIEW = {"width": 1280, "height": 800}
SCALE = 1000 / VIEW["width"]
#: One colour of the palette of 256 stays free: unchanged pixels are stored as transparent.
COLORS = 127
_POINTER = """([x, y]) => {
  let pointer = document.getElementById("shown-pointer")
  if (!pointer) {
    pointer = document.createElement("div")
    pointer.id = "shown-pointer"
    document.body.append(pointer)
  }
  Object.assign(pointer.style, {
    position: "fixed", left: `${x - 11}px`, top: `${y - 11}px`, width: "22px", height: "22px", zIndex: 99999,
    borderRadius: "50%", border: "2px solid white", background: "rgba(255, 255, 255, 0.35)",
    pointerEvents: "none", boxSizing: "border-box",
  })
}"""


class Animation:
    """Frames of a page.

    Attributes
    ----------
    frames : list of PIL.Image.Image
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._milliseconds: list[int] = []
        self.frames: list[Image.Image] = []

    def take(self, milliseconds: int) -> None:
        """Add the page as it is, shown for this time."""
        picture = Image.open(io.BytesIO(self._page.screenshot(scale="device")))
        self.frames.append(picture.convert("RGB"))
        self._milliseconds.append(milliseconds)

    def click(self, target: Locator) -> None:
        """Show the pointer on an element, then click it."""
        # Waits and scrolls as a click at the left end does, also if the element is drawn again meanwhile.
        target.click(trial=True, position={"x": 4, "y": 4})
        box = target.bounding_box()
        assert box is not None
        point = [box["x"] + min(box["width"] / 2, 60), box["y"] + box["height"] / 2]
        self._page.evaluate(_POINTER, point)
        self.take(1100)
        self._page.mouse.click(*point)

    def save(self, path: Path) -> None:
        """Write an endless GIF; all frames share the colours of the first, a middle and the last frame."""
        chosen = [self.frames[i] for i in (0, len(self.frames) // 2, -1)]
        sheet = Image.new("RGB", (chosen[0].width, sum(one.height for one in chosen)))
        for place, one in enumerate(chosen):
            sheet.paste(one, (0, place * one.height))
        palette = sheet.quantize(COLORS, method=Image.Quantize.MEDIANCUT)
        drawn = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in self.frames]
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn[0].save(
            path, save_all=True, append_images=drawn[1:], duration=self._milliseconds, loop=0, optimize=True
        )
