"""`halt_on`: a confirmed finding stops the trainer with its reason; a checker that fails never does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.findings.engine.raised import PATIENCE
from rlpanel.halt_file import HALT, Halt, HaltOn, write_halt
from rlpanel.recording.halting import HaltChecks, SharedDecision
from tests.unit.recording.trainers import standins
from tests.waiting import wait_until


class Trainer(standins.TrainerOfAnotherVersion):
    """Gives control to its callbacks, as the trainers of transformers do."""

    def __init__(self, response: Callable[[int], str]) -> None:
        super().__init__(lambda completions, **_: [1.0, 0.0])
        self.response = response

    def train(self, steps: int, at_end_of: Callable[[int], Any] = lambda step: None) -> int:  # type: ignore[override]
        """Train until the last step, or until a callback asks to stop; return the number of steps."""
        control = SimpleNamespace(should_training_stop=False)
        for step in range(1, steps + 1):
            completions = [self.response(step), self.response(step)]
            for function in self.reward_funcs:
                function(
                    prompts=["p", "p"], completions=completions,
                    completion_ids=[[3, 4, 1], [5, 1]], trainer_state=self.state,
                )  # fmt: skip
            self.state.global_step = step
            at_end_of(step)
            for callback in list(self.callbacks):
                callback.on_step_end(self.args, self.state, control)
            if control.should_training_stop:
                return step
        return steps


def test_nothing_is_checked_unless_it_is_asked_for(tmp_path: Path) -> None:
    trainer = Trainer(lambda step: "b")
    write_halt(tmp_path, Halt("It fell."))
    with rlpanel.record(trainer, tmp_path) as recording:
        assert trainer.train(3) == 3
    assert recording.halted == ""
    assert (tmp_path / HALT).exists()


def test_a_broken_training_stops_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = Trainer(lambda step: f"answer {step} {time.time_ns()}" if step <= 8 else "")

    pause = threading.Event()

    def wait(step: int) -> None:
        on.writer and on.writer.flush()
        if step > 8:  # a training takes time for a step, in which the process that checks looks at the last
            pause.wait(0.1)

    asked = {"severity": "warning", "rules": ["empty_responses"]}
    with caplog.at_level(logging.WARNING), rlpanel.record(trainer, tmp_path, halt_on=asked) as on:
        stopped = trainer.train(600, wait)
    assert 9 + PATIENCE <= stopped < 600
    [message] = [each for each in caplog.messages if "training stops" in each]
    assert f"training stops after step {stopped}: alarm empty_responses: From step 9 on" in message
    assert on.halted in message


def test_a_file_of_an_earlier_training_is_deleted(tmp_path: Path) -> None:
    write_halt(tmp_path, Halt("It fell."))
    with rlpanel.record(Trainer(lambda step: "b"), tmp_path, halt_on="alarm"):
        assert not (tmp_path / HALT).exists()


def test_a_checker_that_fails_stops_nothing_and_says_so_once(tmp_path: Path) -> None:
    said: list[str] = []
    checks = HaltChecks(tmp_path, HaltOn("alarm", ("no_such",)), said.append)

    def ask() -> bool:
        assert checks.reason() == ""
        return bool(said)

    wait_until(ask)
    ask()
    [problem] = said
    assert problem.startswith("findings cannot stop this training any more, and it goes on: ")
    assert "there is no rule 'no_such'" in problem


def test_a_wrong_value_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match='"alarm" or "warning"'):
        rlpanel.record(Trainer(lambda step: "b"), tmp_path, halt_on="info")


def test_asking_after_a_step_takes_no_time(tmp_path: Path) -> None:
    checks = HaltChecks(tmp_path, HaltOn(), lambda problem: None)
    try:
        times = []
        for _ in range(200):
            began = time.perf_counter()
            assert checks.reason() == ""
            times.append(time.perf_counter() - began)
        assert sorted(times)[len(times) // 2] < 1e-3
    finally:
        checks.close()


class Process:
    """One of several processes of a training: a trigger that one sets is seen by all."""

    num_processes = 2

    def __init__(self, shared: list[bool]) -> None:
        self.shared = shared

    def set_trigger(self) -> None:
        self.shared[0] = True

    def check_trigger(self) -> bool:
        was, self.shared[1] = self.shared[0], True
        return was


def test_all_processes_of_a_training_stop_after_the_same_step() -> None:
    shared = [False, False]
    found = SimpleNamespace(reason=lambda: "", close=lambda: None)
    main, other = SharedDecision(Process(shared), found), SharedDecision(Process(shared), None)
    assert (main.reason(), other.reason()) == ("", "")
    found.reason = lambda: "alarm: It fell."
    assert (main.reason(), other.reason()) == ("alarm: It fell.", "the main process has found a reason")


def test_processes_that_cannot_agree_are_not_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = Trainer(lambda step: "b")
    trainer.accelerator = SimpleNamespace(process_index=0, num_processes=2, is_main_process=True)  # type: ignore[assignment]
    with rlpanel.record(trainer, tmp_path, halt_on="alarm"):
        assert trainer.train(3) == 3
    assert [each for each in caplog.messages if "lacks check_trigger" in each]
