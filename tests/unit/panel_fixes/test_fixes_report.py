"""The report on the workarounds that can go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docs.fixes import fixes
from tests.fixes_report import CAN_GO, NEEDED, NO_CHECK, UNCLEAR, report

CHECK = "import pytest\n\n@pytest.mark.upstream_fault{}\ndef test_fault():\n    {}\n"


def test_a_check_that_fails_says_that_its_workaround_can_go(tmp_path: Path) -> None:
    checks = {"embedded_sheets": "assert 1", "component": "assert not 1", "request_checks": "raise OSError"}
    for name, line in checks.items():
        (tmp_path / f"test_{name}.py").write_text(CHECK.format("", line))
    (tmp_path / "test_scripts.py").write_text(CHECK.format("('narrow_row')", "assert 1"))
    (tmp_path / "test_closed_pages.py").write_text("def test_other():\n    assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    upstream_fault(module)\n")
    code = "import sys; from pathlib import Path; from tests.fixes_report import check; "
    code += "print(check(Path(sys.argv[1])))"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    answers = {
        "component": CAN_GO,
        "embedded_sheets": NEEDED,
        "narrow_row": NEEDED,
        "request_checks": UNCLEAR,
    }
    assert ran.stdout.splitlines()[-1] == str(answers)
    lines = report(answers)
    assert f"panel_fixes/component.py: {CAN_GO}" in lines
    assert f"panel_fixes/closed_pages.py: {NO_CHECK}" in lines
    assert len(lines) == len(fixes())
