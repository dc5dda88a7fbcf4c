"""Releases on the package index that pip is configured for, also those that need a newer Python."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.upstream.process import PYTHON

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


class NoRelease(Exception):
    """The index has no such release, or it cannot be downloaded; the message is pip's."""


def newest(package: str) -> str:
    """Return the newest version of a package that is no preview."""
    answer = _pip(sys.executable, "index", "versions", package, "--ignore-requires-python")
    found = re.search(r"^[\w.-]+ \((.+)\)$", answer, re.MULTILINE)
    if found is None:
        raise NoRelease(f"no versions of {package} in the answer of pip")
    return found[1]


def unpack(package: str, version: str, sources: Path) -> None:
    """Download the wheel of a release and unpack it below a folder, without its dependencies."""
    downloads = sources.parent / "downloads" / f"{package}-{version}"
    _pip(
        sys.executable, "download", "-q", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python",
        "-d", str(downloads), f"{package}=={version}",
    )  # fmt: skip
    for wheel in downloads.glob("*.whl"):
        with zipfile.ZipFile(wheel) as content:
            content.extractall(sources / wheel.name.partition("-")[0])


def install(package: str, version: str, folder: Path) -> None:
    """Install a release with its dependencies into a folder, for the Python of the training environment.

    A release that needs a newer Python cannot be installed: its dependencies need it, too.
    """
    _pip(str(PYTHON), "install", "-q", "--no-compile", "--target", str(folder), f"{package}=={version}")


def _pip(python: str, *arguments: str) -> str:
    done = subprocess.run([python, *_PIP, *arguments], capture_output=True, text=True, timeout=1200)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.lower().startswith("error")]
        raise NoRelease(_without_addresses(" ".join(reasons) or "pip failed without a reason"))
    return done.stdout


def _without_addresses(text: str) -> str:
    """Return a message of pip without the addresses of the index: reports are published."""
    return re.sub(r"\w+://\S+", "(address)", text)
