"""The code of the documentation's first page runs as it stands, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate

PAGE = (generate.FOLDER / "index.md").read_text("utf-8")
[CODE] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_ten_lines_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(CODE, "index.md", "exec"), names)
    steps, responses = capsys.readouterr().out.split("Name: response")[0].split("0    3")
    assert re.findall(r"^\d+ +(\d) +2 +0\.5$", steps, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert "4" not in responses
    names["run"].close()  # type: ignore[attr-defined]


def test_they_are_about_ten() -> None:
    assert len([line for line in CODE.splitlines() if line]) <= 10
