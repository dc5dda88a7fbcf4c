"""The wheel works without the repository, and the sdist holds what the tests need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import rlpanel
from tests.integration.forked import CHECKOUT
from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess

pytestmark = pytest.mark.slow

#: Files that the installed package reads while it runs.
DATA = [
    "py.typed",
    "app/page/page.css",
    "app/page/page_controls.js",
    "data/grpo_couplets.jsonl.zst",
    "docs/metrics.md",
    "docs/agents-cli.md",
    "dashboards/board.py",
]
#: Files and folders that `make test` needs.
TESTED = [
    *(
        "Makefile",
        "hatch_build.py",
        "pyproject.toml",
        "environment.yml",
        "README.md",
        "README.zh.md",
        "CHANGELOG.md",
        "LICENSE",
    ),
    *("rlpanel/__init__.py", "dashboards/board.py", "tests/conftest.py", "docs/generate.py"),
    *("docs/deploy/Containerfile", "examples/own_loop.py"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", os.fspath(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", os.fspath(folder / "bin" / "python"), "install", "-q"]
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--disable-pip-version-check", os.fspath(wheel)], check=True
    )
    # A path alone, so that the editable installation there stays without effect.
    libraries = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> str:
    """Run an installed program without the repository on its path, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [os.fspath(program), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_installed_command_tells_its_version(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "rlpanel", "--version", cwd=tmp_path) == f"rlpanel {rlpanel.__version__}"
    where = run(installed / "python", "-c", "import rlpanel; print(rlpanel.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(installed.parent)


def test_the_wheel_holds_the_files_that_the_package_reads(installed: Path, tmp_path: Path) -> None:
    package = Path(run(installed / "rlpanel", "app-path", cwd=tmp_path)).parents[1]
    assert package.is_relative_to(installed.parent)
    assert [name for name in DATA if not (package / name).is_file()] == []
    source = {path.relative_to(CHECKOUT / "rlpanel") for path in (CHECKOUT / "rlpanel").rglob("*")}
    wanted = {path for path in source if "__pycache__" not in path.parts}
    assert [path for path in wanted if not (package / path).exists()] == []


def test_panel_serves_the_installed_script(installed: Path, tmp_path: Path) -> None:
    script = run(installed / "rlpanel", "app-path", cwd=tmp_path)
    command = (os.fspath(installed / "python"), "-m", "panel", "serve", script)
    with ServerProcess(command=command, cwd=tmp_path, env={"PYTHONPATH": None}) as server:
        answer = ask(server.url, "/board")
        assert answer.status == 200
        assert b"<title>rlpanel</title>" in answer.body


def test_the_page_on_an_index_has_no_broken_link(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    text = re.sub(r"^```.*?^```$", "", str(metadata.get_payload()), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [target for target in targets if not target.startswith("https://")] == []
    assert text.startswith("# rlpanel\n")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Author"] == "The rlpanel maintainers"
    assert {"test", "dev", "lint", "docs", "release"} & {*metadata.get_all("Provides-Extra")} == set()


def test_the_sdist_holds_what_the_tests_need(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert [name for name in TESTED if name not in held] == []
    tests = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "tests").rglob("*.py")}
    assert tests - held == set()
