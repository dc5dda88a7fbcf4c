"""Draws a page in an installed Chromium or Chrome without a window, and returns what its script wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rlpanel.errors import SettingError

#: Programs that are looked for, after the one that the environment variable ``CHROMIUM`` names.
PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
#: Seconds of the page's own clock, and of the whole call.
_PAGE_SECONDS, _SECONDS = 60, 180
#: No host is reached even if the page's content security policy failed.
_FLAGS = ("--headless", "--disable-gpu", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND")
_DRAWN = re.compile(r'<pre id="drawn">([^<]*)</pre>')


def find_browser() -> str:
    """Return the path of a browser.

    Raises
    ------
    SettingError
        If none is found; the message says what to do.
    """
    names = (os.environ.get("CHROMIUM", ""), *PROGRAMS)
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise SettingError(
            "PNG and SVG are drawn by Chromium or Chrome, and none is on PATH: install one, name its program "
            "in the environment variable CHROMIUM, or save as .html"
        )
    return found


def draw_in_browser(page: bytes, scale: int = 1) -> str:
    """Return the text of the element ``pre#drawn`` that the page's script leaves.

    Parameters
    ----------
    page : bytes
        HTML that needs no other file.
    scale : int
        Pixels of the screen for one pixel of the page.

    Raises
    ------
    SettingError
        If no browser is found, or it does not draw the page.
    """
    browser = find_browser()
    # Chromium's sandbox does not start for root. The page's policy lets it run no script but this module's.
    flags = [*_FLAGS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]
    flags += [f"--force-device-scale-factor={scale}", f"--virtual-time-budget={_PAGE_SECONDS * 1000}"]
    with tempfile.TemporaryDirectory(prefix="rlpanel-plot-") as folder:
        file = Path(folder) / "plot.html"
        file.write_bytes(page)
        command = [browser, *flags, f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingError(f"{browser} did not draw the plot: {error}; save as .html") from error
    drawn = _DRAWN.search(done.stdout.decode("utf-8", "replace"))
    if drawn is None:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingError(f"{browser} did not draw the plot: {''.join(last) or 'no reason'}; save as .html")
    return drawn[1]
