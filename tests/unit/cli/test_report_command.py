"""The command ``report``: what it prints, its HTML file, and its exit codes for CI."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import rlpanel
from rlpanel.cli.commands import build_app
from rlpanel.errors import SettingError
from rlpanel.investigations.report_file import FILE
from rlpanel.queries.reports.claim_report import add_entry
from tests.factories import write_run

SCRIPT = (
    "# Title\n<script>window.ran=1</script> [press](javascript:alert(1)) "
    "![i](http://evil.example/x.png) **so**"
)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Options of the reader become environment variables, which other tests must not see."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "run", steps=3)
    with rlpanel.open_run(folder, follow=False) as opened:
        add_entry(opened.data, "text", text=SCRIPT)
        add_entry(opened.data, "number", claim={"metric": "reward_mean", "steps": "2"}, identifier="n1")
        uid = opened.snapshot.uid(0)
        quote = str(opened.data.sample(uid).response)
        add_entry(opened.data, "quotation", claim={"uid": uid, "field": "response", "text": quote})
    return folder


def asked(*words: str) -> Result:
    return CliRunner().invoke(build_app(), ["report", *words])


def claim(run: Path, identifier: str, **changes: object) -> None:
    """Add the number again, with another value or step."""
    rows = [json.loads(each) for each in (run / FILE).read_text().splitlines()]
    row = next(each for each in rows if each["id"] == "n1")
    row |= {"id": identifier, "claim": row["claim"] | changes}
    with (run / FILE).open("a") as file:
        file.write(json.dumps(row) + "\n")


def test_claims_that_hold_exit_with_0(run: Path) -> None:
    result = asked(str(run))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("run: 2 holds\n")
    document = json.loads(asked(str(run), "--json").stdout)
    assert (document["about"]["holds"], document["about"]["broken"], document["total"]) == (2, 0, 3)


def test_a_changed_and_a_broken_claim_set_the_exit_code(run: Path) -> None:
    claim(run, "n2", expected=99.0)
    result = asked(str(run))
    assert result.exit_code == 0
    assert "claimed 99, now" in result.stdout
    assert asked(str(run), "--fail-on", "changed").exit_code == 1
    claim(run, "n3", steps="77")
    result = asked(str(run))
    assert result.exit_code == 1
    assert "step 77 is gone" in result.stdout
    assert asked(str(run), "--fail-on", "never").exit_code == 0


def test_a_damaged_line_makes_the_answer_incomplete(run: Path) -> None:
    with (run / FILE).open("a") as file:
        file.write("{damaged\n")
    result = asked(str(run))
    assert result.exit_code == 3
    assert "line 4 holds no valid entry" in result.stderr


def test_a_report_that_does_not_exist_is_an_error(run: Path) -> None:
    result = asked(str(run), "--name", "Reprt")
    assert isinstance(result.exception, SettingError)
    assert "similar ones are Report" in str(result.exception)


def test_the_html_file_is_self_contained_and_runs_nothing(run: Path, tmp_path: Path) -> None:
    claim(run, "n2", expected=99.0)
    page = tmp_path / "report.html"
    assert asked(str(run), "--html", str(page), "--board", "http://board:1").exit_code == 0
    text = page.read_text("utf-8")
    assert "<strong>so</strong>" in text
    assert "&lt;script&gt;window.ran=1&lt;/script&gt;" in text
    assert "<script" not in text
    assert 'href="javascript' not in text
    assert "<img" not in text
    assert "default-src 'none'" in text
    assert 'href="http://board:1/?run=run&amp;step=2"' in text
    assert "99" in text
    assert text.count('<article class="holds">') == 2
    assert text.count('<article class="changed">') == 1
