"""The demo: recorded bytes, written like training writes them; all its files are deleted at the end."""

from __future__ import annotations

import gc
import hashlib
import shutil
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlpanel.app.demo import FIRST_STEPS, ROLLOUTS, SCALARS, Demo, read_recording
from rlpanel.cli.commands import build_app
from rlpanel.errors import SettingError
from tests.waiting import wait_until

NEVER = 1e6  # seconds per step: nothing grows while a test looks


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def test_the_finished_run_is_whole_at_once() -> None:
    with Demo(NEVER) as demo:
        assert {
            path.name: path.read_bytes() for path in (demo.root / "couplets-ppo").iterdir()
        } == read_recording("ppo_couplets")
        agent = demo.root / "calculator-grpo"
        assert {path.name: path.read_bytes() for path in agent.iterdir()} == read_recording("grpo_calculator")


def test_the_growing_run_begins_with_its_first_steps() -> None:
    with Demo(NEVER) as demo:
        growing = demo.root / "couplets-grpo"
        assert (lines(growing / ROLLOUTS), lines(growing / SCALARS)) == (64 * FIRST_STEPS, FIRST_STEPS)


def test_lines_come_one_by_one_and_in_order() -> None:
    whole = read_recording("grpo_couplets")[ROLLOUTS]
    with Demo(seconds_per_step=0.64) as demo:
        path = demo.root / "couplets-grpo" / ROLLOUTS
        begin = lines(path)
        wait_until(lambda: lines(path) >= begin + 5, message="five lines more")
        written = path.read_bytes()
    assert whole.startswith(written)
    assert written.endswith(b"\n")


def test_the_scalars_of_a_step_come_after_its_samples() -> None:
    with Demo(seconds_per_step=0.05) as demo:
        growing = demo.root / "couplets-grpo"
        wait_until(lambda: lines(growing / SCALARS) > FIRST_STEPS, message="a step's scalars")
        scalars = lines(growing / SCALARS)
        samples = lines(growing / ROLLOUTS)
    assert samples >= 64 * scalars


def test_after_the_last_step_the_run_stays_as_it_was_recorded() -> None:
    with Demo(seconds_per_step=0) as demo:
        growing = demo.root / "couplets-grpo"
        wait_until(lambda: not demo.growing, message="the end of the replay")
        assert {path.name: path.read_bytes() for path in growing.iterdir()} == read_recording("grpo_couplets")


def test_closing_stops_the_thread_and_removes_the_root() -> None:
    demo = Demo(seconds_per_step=0.5)
    demo.close()
    demo.close()
    assert (demo.growing, demo.root.exists()) == (False, False)


def test_a_forgotten_demo_ends_and_leaves_nothing() -> None:
    demo = Demo(seconds_per_step=0.5)
    root = demo.root
    del demo
    gc.collect()
    assert not root.exists()
    assert "rlpanel-demo" not in {thread.name for thread in threading.enumerate()}


def test_a_root_that_somebody_removes_ends_the_replay() -> None:
    with Demo(seconds_per_step=0.05) as demo:
        shutil.rmtree(demo.root)
        wait_until(lambda: not demo.growing, message="the end of the replay")


@pytest.mark.parametrize(
    ("name", "samples", "digest"),
    [
        ("grpo_couplets", 3840, "7926a9c81c9bd5982457647d8cb9748183528cf3c2efc321a6aa800b27e41f43"),
        ("grpo_calculator", 1280, "67d52b0fd00e6a42a17b3a39b41f81f6bbb573c537dbcbc64b5ce072a1413316"),
        ("ppo_couplets", 3840, "79bdf67222ffa6b1958b855c739063b24fd18e0059e3fbdf05d7eab4dc6ca666"),
    ],
)
def test_the_recordings_are_the_bytes_that_training_wrote(name: str, samples: int, digest: str) -> None:
    content = read_recording(name)[ROLLOUTS]
    assert (content.count(b"\n"), hashlib.sha256(content).hexdigest()) == (samples, digest)


def test_the_command_writes_the_run_of_an_agent_into_an_empty_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "exp1"
    written = CliRunner().invoke(build_app("demo"), ["demo", "--write", str(folder)])
    assert written.exit_code == 0, written.output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == read_recording("grpo_calculator")
    (folder / ROLLOUTS).write_text("of somebody")
    refused = CliRunner().invoke(build_app("demo"), ["demo", "--write", str(folder)])
    assert isinstance(refused.exception, SettingError)
    assert (folder / ROLLOUTS).read_text() == "of somebody"
