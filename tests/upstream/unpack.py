"""Unpack downloaded wheels: ``python -m tests.upstream.unpack DOWNLOADS SOURCES``; one folder a framework."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def main() -> None:
    """Unpack every wheel of the first folder below the second one."""
    downloads, sources = map(Path, sys.argv[1:])
    for wheel in downloads.glob("*.whl"):
        with zipfile.ZipFile(wheel) as content:
            content.extractall(sources / wheel.name.partition("-")[0])


if __name__ == "__main__":
    main()
