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


def test_without_torch_the_command_says_so(tmp_path: Path) -> None:
    (tmp_path / "rollout_data").mkdir()
    (tmp_path / "rollout_data" / "0.pt").write_bytes(b"PK")
    code = "import sys; sys.modules['torch'] = None; from rlpanel.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "convert", "slime", str(tmp_path)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install torch" in done.stderr
