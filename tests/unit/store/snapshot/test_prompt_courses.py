"""Prompts are learnt, forgotten, flaky, dead or steady by the moves of their mean reward."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.store.snapshot.prompt_courses import PromptCourses, prompt_courses
from tests.factories import append, line

LOG = "rollout_data_rank_0.jsonl"
#: Prompt → number of solved samples of eight at each step.
SOLVED = {
    "learnt": (0, 1, 6, 7),
    "slowly": (0, 2, 4, 6, 8),
    "forgotten": (1, 7, 7, 1),
    "lost": (8, 7, 1, 0),
    "flaky": (0, 8, 0, 8),
    "dead": (0, 0, 0, 0),
    "never above": (1, 0, 1, 0),
    "solved": (8, 8, 8, 8),
    "noise": (4, 5, 4, 5),
    "rare": (0, 8),
}
EXPECTED = {
    "learnt": "learnt",
    "slowly": "learnt",
    "forgotten": "forgotten",
    "lost": "forgotten",
    "flaky": "flaky",
    "dead": "dead",
    "never above": "dead",
    "solved": "steady",
    "noise": "steady",
}


def courses(folder: Path, solved: dict[str, tuple[int, ...]], least: int = 3, of: int = 8) -> PromptCourses:
    folder.mkdir()
    for step in range(1, 1 + max(map(len, solved.values()))):  # a step that comes again is another attempt
        for prompt, by_step in solved.items():
            good = by_step[step - 1] if step <= len(by_step) else 0
            lines = [
                line(step, prompt=prompt, reward=float(at < good), tokens=False, drop=("ref_reward", "group"))
                for at in range(of if step <= len(by_step) else 0)
            ]
            append(folder / LOG, *lines)
    with rlpanel.open_run(folder, follow=False) as run:
        found = prompt_courses(run.snapshot, least)
        order = {run.snapshot.uid(prompt.row): prompt for prompt in found.prompts}
        names = {uid: run.sample(uid).prompt for uid in order}
    for uid, prompt in order.items():
        object.__setattr__(prompt, "name", names[uid])
    return found


def test_each_prompt_has_one_course(tmp_path: Path) -> None:
    found = courses(tmp_path / "run", SOLVED)
    assert {prompt.name: prompt.course for prompt in found.prompts} == EXPECTED  # type: ignore[attr-defined]
    assert (found.seen, found.most) == (len(SOLVED), 5)


def test_prompts_seen_too_seldom_are_counted_only(tmp_path: Path) -> None:
    found = courses(tmp_path / "run", {"a": (0, 8), "b": (1, 1)})
    assert (found.prompts, found.seen, found.most) == ([], 2, 2)


def test_single_samples_are_noise_unless_the_reward_changes_by_its_whole_range(tmp_path: Path) -> None:
    found = courses(tmp_path / "run", {"up": (0, 0, 1), "back": (0, 1, 0), "flat": (0, 0, 0)}, of=1)
    assert sorted(prompt.course for prompt in found.prompts) == ["dead", "forgotten", "learnt"]


def test_those_to_look_at_first_come_first(tmp_path: Path) -> None:
    found = courses(tmp_path / "run", SOLVED)
    assert [prompt.name for prompt in found.of("learnt")] == ["slowly", "learnt"]  # type: ignore[attr-defined]
    assert [prompt.name for prompt in found.of("dead")] == ["dead", "never above"]  # type: ignore[attr-defined]
    assert found.of("")[0].gain == pytest.approx(-1.0)
    learnt = found.of("learnt")[1]
    assert (learnt.steps.tolist(), learnt.samples) == ([1, 2, 3, 4], 32)
    assert learnt.means.tolist() == pytest.approx([0, 0.125, 0.75, 0.875])


def test_equal_rewards_have_no_moves(tmp_path: Path) -> None:
    found = courses(tmp_path / "run", {"a": (0, 0, 0)})
    assert [prompt.course for prompt in found.prompts] == ["dead"]


def test_a_run_without_rewards_has_no_prompts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    append(tmp_path / "run" / LOG, line(1, reward=None))
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        assert prompt_courses(run.snapshot, 3) == PromptCourses([])
