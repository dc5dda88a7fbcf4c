"""Starts a JupyterLab for a test: on a free loopback port, with its files and settings in one folder."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.ui.board import PATIENCE, free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    "--IdentityProvider.token=",
    "--LabApp.news_url=",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)


class Lab:
    """A JupyterLab server with a given root folder; its kernels import the same rlpanel as the tests.

    Attributes
    ----------
    url : str
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/lab"
        own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR")
        places = {name: str(folder / name.lower()) for name in own}
        for place in places.values():
            Path(place).mkdir()
        self.scratch = Path(places["TMPDIR"])
        command = [sys.executable, "-m", "jupyterlab", f"--port={port}", f"--ServerApp.root_dir={folder}"]
        self._process = subprocess.Popen(
            [*command, *OPTIONS],
            env=os.environ | places | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Lab:
        wait_until(self._answers, PATIENCE, "JupyterLab answers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url, timeout=PATIENCE) as answer:
                return answer.status == 200
        except urllib.error.URLError:
            return False
