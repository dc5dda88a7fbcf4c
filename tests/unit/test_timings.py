"""The table at the end of `make test` counts children, keeps failures, and names the slowest tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import timings

BUSY = "import time\nbegin = time.process_time()\nwhile time.process_time() < begin + 0.5: pass\n"


def test_children_count_while_they_run_and_after() -> None:
    before = timings.cpu_seconds()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert timings.cpu_seconds() - before > 0.4


def test_a_part_that_fails_is_in_the_table_with_its_slowest_test(tmp_path: Path) -> None:
    tests = tmp_path / "test_two.py"
    tests.write_text(
        f"def test_busy():\n    exec({BUSY!r})\n    assert False\n\n\ndef test_idle():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    script = "import sys; from tests import timings; from pathlib import Path; "
    script += f"timings.FOLDER = Path({str(tmp_path)!r}); "
    script += f"sys.exit(timings.run('unit', {[*command, '-p', 'tests.conftest', str(tests)]!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(timings.__file__).parents[1], check=False)
    assert done.returncode == 1
    part, *rest = timings.table(tmp_path).splitlines()[1:]
    assert part.split()[:2] == ["unit", "2"]
    assert part.endswith(" failed")
    assert [line.rpartition("::")[2] for line in rest[-2:]] == ["test_busy", "test_idle"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_part_is_that_of_its_command(code: int) -> None:
    script = (
        "import sys, tempfile; from pathlib import Path; from tests import timings; "
        "timings.FOLDER = Path(tempfile.mkdtemp()); "
        f"sys.exit(timings.run('x', [sys.executable, '-c', 'raise SystemExit({code})']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(timings.__file__).parents[1], check=False)
    assert done.returncode == code
