"""`rlpanel gate`: exit codes, JUnit, the report with hostile texts, the action and the fixture for pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.integration.cli.command_line import run_in
from tests.unit.gate.gate_runs import HOSTILE, write_baselines, write_seed

REPOSITORY = Path(__file__).parents[3]
AGAINST = "--against base1 base2 base3 base4"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four baselines, a run that is as good, and one that gets worse."""
    folder = tmp_path_factory.mktemp("gate")
    write_baselines(folder)
    write_seed(folder / "good", 9)
    write_seed(folder / "bad", 9, fall=0.6)
    write_seed(folder / "short", 9, steps=range(1, 4))
    return folder


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"good {AGAINST} --on reward", 0),
        (f"bad {AGAINST}", 1),
        (f"bad {AGAINST} --on nosuch", 2),
        ("bad", 2),
        (f"bad {AGAINST} --align weeks", 2),
        ("bad --against nosuch", 2),
        (f"short {AGAINST}", 4),
        ("bad --against base1", 4),
    ],
)
def test_each_verdict_has_its_exit_code(root: Path, line: str, code: int) -> None:
    done = run_in(root, f"rlpanel gate {line}")
    assert done.returncode == code, done.stderr
    assert "\x1b" not in done.stdout
    assert (code == 2) == (not done.stdout)


def test_a_file_that_is_not_read_gives_3_unless_the_run_is_worse(root: Path) -> None:
    unread = root / "good" / "rollout_data_rank_7.jsonl.gz"
    unread.write_bytes(b"\x1f\x8b\x08 this is no gzip file")
    try:
        done = run_in(root, f"rlpanel gate good {AGAINST} --on reward")
        assert (done.returncode, "not read" in done.stderr) == (3, True)
    finally:
        unread.unlink()


def test_junit_has_a_case_for_each_number(root: Path) -> None:
    run_in(root, f"rlpanel gate bad {AGAINST} --junit out/gate.xml")
    suite = ElementTree.parse(root / "out" / "gate.xml").getroot().find("testsuite")
    assert suite is not None
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) == {"reward", "length"}
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    failure = cases["reward"].find("failure")
    assert failure is not None
    assert {line.split(":")[0] for line in (failure.text or "").splitlines()} == {
        *("window", "first step", "effect", "standard error", "p", "sample")
    }
    assert cases["length"].find("failure") is None
    run_in(root, f"rlpanel gate short {AGAINST} --junit short.xml")
    skipped = ElementTree.parse(root / "short.xml").getroot().iter("skipped")
    assert all("fewer than 5" in (each.get("message") or "") for each in skipped)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text, self.attributes = set[str](), "", set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_shows_logged_texts_as_text(root: Path) -> None:
    run_in(root, f"rlpanel gate bad {AGAINST} --html gate.html --board https://board.example")
    source = (root / "gate.html").read_text("utf-8")
    page = _Page()
    page.feed(source)
    assert not {"script", "img", "iframe"} & page.tags
    assert not {name for name in page.attributes if name.startswith("on")}
    assert HOSTILE.split("\x1b")[0] in page.text
    assert "https://board.example" in source
    assert {"svg", "polyline"} <= page.tags


def test_json_is_the_table_with_the_verdict(root: Path) -> None:
    document = json.loads(run_in(root, f"rlpanel gate bad {AGAINST} --json").stdout)
    assert document["about"]["state"] == "worse"
    assert [row["state"] for row in document["rows"]] == ["worse", "passed"]
    assert len(document["rows"][0]["windows"]) == 10


def test_the_action_passes_its_inputs_and_its_exit_code(root: Path, tmp_path: Path) -> None:
    action = yaml.safe_load((REPOSITORY / ".github" / "actions" / "gate" / "action.yml").read_text("utf-8"))
    step = action["runs"]["steps"][-1]
    assert "${{" not in step["run"]  # inputs come by the environment, so that none runs as code
    paths = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary"}
    given = {
        "RUN": "bad", "AGAINST": "base1\nbase2\nbase3\nbase4\n", "NUMBERS": "reward", "WINDOWS": "10",
        "ALIGN": "step", "CANNOT_TELL": "warn", "JUNIT": "a.xml", "HTML": "a.html",
    }  # fmt: skip
    assert set(given) == set(step["env"])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(**changed: str) -> int:
        environment = os.environ | given | {name: str(value) for name, value in paths.items()} | changed
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=root, env=environment | {"PATH": path}, timeout=60
        )
        return done.returncode

    assert run() == 1
    assert paths["GITHUB_OUTPUT"].read_text() == "code=1\n"
    assert "reward is worse" in paths["GITHUB_STEP_SUMMARY"].read_text()
    assert run(RUN="short") == 0
    assert run(RUN="short", CANNOT_TELL="fail") == 4
    assert run(RUN="$(touch hacked)") == 2
    assert not (root / "hacked").exists()


_NIGHTLY = """
def test_good(rlpanel_gate):
    table = rlpanel_gate("good", BASELINES, on=["reward"])
    assert table.about["state"] == "passed"

def test_bad(rlpanel_gate):
    rlpanel_gate("bad", BASELINES, on=["reward"])

def test_short(rlpanel_gate):
    rlpanel_gate("short", BASELINES)

def test_short_fails(rlpanel_gate):
    rlpanel_gate("short", BASELINES, cannot_tell="fail")
"""


def pytest_in(folder: Path, *arguments: str) -> str:
    """Run pytest on a folder in a process of its own, with the plugin and no others of rlpanel's tests."""
    command = [sys.executable, "-m", "pytest", "-p", "rlpanel.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, "--rootdir", ".", *arguments],
        cwd=folder, env=os.environ | {"PYTEST_ADDOPTS": ""}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_fixture_fails_skips_and_passes(root: Path) -> None:
    baselines = "BASELINES = ['base1', 'base2', 'base3', 'base4']\n"
    (root / "test_nightly.py").write_text(baselines + _NIGHTLY)
    said = pytest_in(root, "test_nightly.py", "-rs")
    assert "2 failed, 1 passed, 1 skipped" in said
    assert "reward is worse" in said
    assert "fewer than 5" in said


def test_the_plugin_loads_nothing_heavy_and_changes_no_session(tmp_path: Path) -> None:
    heavy = "{'numpy', 'pandas', 'panel', 'bokeh', 'rlpanel.api'}"
    (tmp_path / "test_empty.py").write_text(
        f"import sys\n\ndef test_light():\n    assert not {heavy} & set(sys.modules)\n"
    )
    assert "1 passed" in pytest_in(tmp_path)


def test_the_example_of_the_page_uses_inputs_of_the_action() -> None:
    text = (REPOSITORY / "docs" / "gate.md").read_text("utf-8")
    [example] = [part.split("```")[0] for part in text.split("```yaml\n")[1:]]
    [step] = yaml.safe_load(example)["jobs"]["gate"]["steps"]
    action = yaml.safe_load((REPOSITORY / ".github" / "actions" / "gate" / "action.yml").read_text("utf-8"))
    # YAML 1.1 reads the key "on" as true.
    given = {"on" if name is True else name for name in step["with"]}
    assert given <= set(action["inputs"])
    required = {name for name, each in action["inputs"].items() if each.get("required")}
    assert required <= given


def test_the_test_of_the_page_runs(root: Path, tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "gate.md").read_text("utf-8")
    [example] = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    (tmp_path / "runs").mkdir()
    for name, source in zip(("new", *"abcd"), ("good", "base1", "base2", "base3", "base4"), strict=True):
        (tmp_path / "runs" / name).symlink_to(root / source)
    (tmp_path / "test_page.py").write_text(example)
    assert "1 passed" in pytest_in(tmp_path, "test_page.py")
