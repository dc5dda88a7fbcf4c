"""All commands work without a home: no HOME, no passwd entry, a read-only home, a strict umask."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.unit.sources.readers.faults import public_folder

pytestmark = pytest.mark.slow

PATIENCE = 120
#: A user without a passwd entry; only root can become that user.
NOBODY = 54321
IS_ROOT = os.geteuid() == 0


@lru_cache
def launcher(umask: str = "022") -> tuple[str, ...]:
    """Start the command with this umask, as a user without a passwd entry if permissions allow."""
    shell = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    rlpanel = (sys.executable, "-m", "rlpanel")
    if not IS_ROOT:
        return (*shell, *rlpanel)
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    # Others may have no access to root's interpreter. Permission to read all files does not allow writing.
    reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    tried = subprocess.run([*user, *shell, sys.executable, "-c", ""], capture_output=True, check=False)
    return (*user, *(reading if tried.returncode else ()), *shell, *rlpanel)


@pytest.fixture
def scene() -> Iterator[Path]:
    """A folder that any user may enter, with a large run and a temporary folder for everyone."""
    with public_folder() as folder:
        run = write_run(folder / "root" / "run", steps=2, samples=3)
        write_run(run, steps=1, samples=1, response="x" * (5 << 20), file_name="rollout_data_rank_1.jsonl")
        (folder / "temporary").mkdir()
        (folder / "temporary").chmod(0o1777)
        (folder / "home").mkdir(mode=0o555)
        yield folder
        (folder / "home").chmod(0o755)


HOMES = ["no HOME", "HOME does not exist", "HOME cannot be written"]


def environment(scene: Path, home: str) -> dict[str, str | None]:
    homes = {
        "no HOME": None,
        "HOME does not exist": "/nonexistent",
        "HOME cannot be written": str(scene / "home"),
    }
    return {
        "HOME": homes[home],
        "XDG_CACHE_HOME": None,
        "TMPDIR": str(scene / "temporary"),
    }


def command(
    scene: Path, home: str, *arguments: object, umask: str = "022"
) -> subprocess.CompletedProcess[str]:
    changes = environment(scene, home) | {"PYTHONPATH": str(CHECKOUT)}
    env = {name: value for name, value in (os.environ | changes).items() if value is not None}
    return subprocess.run(
        [*launcher(umask), *map(str, arguments)],
        env=env, cwd=scene, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("home", "umask"), [*((home, "077") for home in HOMES), (HOMES[0], "000")])
def test_an_index_is_kept_for_the_next_time(scene: Path, home: str, umask: str) -> None:
    for _ in range(2):
        done = command(scene, home, "index", scene / "root" / "run", umask=umask)
        assert (done.returncode, done.stderr) == (0, "")
    kept = list((scene / "temporary").glob("rlpanel-*/*/manifest"))
    if IS_ROOT:
        assert len(kept) == 1
        assert kept[0].parents[1].stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("home", [HOMES[0], HOMES[2]])
def test_an_export_is_written(scene: Path, home: str) -> None:
    page = scene / "temporary" / "page.html"
    done = command(scene, home, "export", scene / "root" / "run", "--html", page, umask="077")
    assert (done.returncode, done.stderr) == (0, "")
    assert page.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("home", HOMES)
def test_a_conversion_begins(scene: Path, home: str) -> None:
    done = command(scene, home, "convert", "slime", "nowhere")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "home"), [*(("serve", home) for home in HOMES), ("demo", HOMES[0])])
def test_a_board_opens(scene: Path, home: str, name: str) -> None:
    arguments = [scene / "root"] if name == "serve" else []
    server = ServerProcess(
        *arguments, command=(*launcher("077"), name), cwd=scene, env=environment(scene, home)
    )
    with server:
        page = server_page(server.url)
    assert "<title>" in page
    assert not [line for line in server.output if "Traceback" in line]


def server_page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())
