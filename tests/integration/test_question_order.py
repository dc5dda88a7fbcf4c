"""The order of the questions in help and docs does not depend on which module is imported first."""

from __future__ import annotations

import subprocess
import sys

from rlpanel.queries.catalogue import QUESTIONS


def test_a_question_that_is_imported_first_keeps_its_place() -> None:
    code = "import rlpanel.queries.sql; from rlpanel.queries.catalogue import QUESTIONS; print(*QUESTIONS)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == list(QUESTIONS)
