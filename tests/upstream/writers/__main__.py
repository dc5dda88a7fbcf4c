"""Run one writer: ``python -m tests.upstream.writers MODULE.FUNCTION FOLDER``.

Runs with the Python of the training environment, which has torch.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.upstream.sources import MissingWriter

#: Exit code if a release lacks a function or file of the writer; a reason is printed.
MISSING = 3


def main() -> None:
    """Run the writer that the command line names."""
    (module, _, function), folder = sys.argv[1].partition("."), Path(sys.argv[2])
    folder.mkdir(parents=True)
    try:
        getattr(importlib.import_module(f"tests.upstream.writers.{module}"), function)(folder)
    except MissingWriter as reason:
        print(reason, file=sys.stderr)
        sys.exit(MISSING)


if __name__ == "__main__":
    main()
