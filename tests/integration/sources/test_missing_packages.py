"""Without an optional package the message names it and says how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REAL = Path(__file__).parents[2] / "data" / "trl"


def test_without_pyarrow_the_file_says_what_is_missing() -> None:
    code = f"""if True:
        import sys
        sys.modules["pyarrow"] = None
        import rlpanel
        print(rlpanel.open_run({str(REAL)!r}, follow=False).snapshot.problems[0])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "parquet needs pyarrow: pip install pyarrow" in done.stdout, done.stderr
