"""Files of a resumed job replace steps of older files; files of ranks, data sets and epochs do not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append

Document = dict[str, Any]


def batch(
    step: int, reward: float, prompts: str = "task {step}-{index}", size: int = 4, **more: Any
) -> list[Document]:
    """The samples of a step."""
    return [
        {
            "step": step,
            "prompt": prompts.format(step=step, index=index // 2),
            "response": f"r{index}",
            "reward": reward,
        }
        | more
        for index in range(size)
    ]


def put(path: Path, batches: Iterable[list[Document]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, b"".join(json.dumps(line).encode() + b"\n" for lines in batches for line in lines))


def counted(folder: Path) -> tuple[dict[int, tuple[int, float]], int, list[str]]:
    """Samples and mean reward by step, the number of samples of older attempts, and the remarks."""
    with rlpanel.open_run(folder, follow=False) as run:
        frame = run.steps
        by_step = {
            int(row["step"]): (int(row["samples"]), float(row["reward_mean"])) for _, row in frame.iterrows()
        }
        return by_step, run.left_out.older_attempts, [remark.kind for remark in run.remarks]


def test_a_resume_in_a_new_file_replaces_the_steps_it_repeats(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0) for step in range(1, 9)))
    put(tmp_path / "b.jsonl", (batch(step, 1.0) for step in range(6, 12)))
    by_step, older, remarks = counted(tmp_path)
    assert by_step == {step: (4, float(step >= 6)) for step in range(1, 12)}
    assert (older, remarks) == (12, [])


def test_a_resume_that_did_not_get_further_counts_as_well(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0) for step in range(1, 7)))
    put(tmp_path / "b.jsonl", (batch(step, 1.0) for step in (4, 5)))
    by_step, older, _ = counted(tmp_path)
    # step 6 of the older attempt follows from weights that were lost
    assert (list(by_step), older) == ([1, 2, 3, 4, 5], 12)


def test_equal_prompts_in_all_steps_need_a_file_that_reaches_as_far(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0, "play") for step in range(1, 7)))
    put(tmp_path / "b.jsonl", (batch(step, 1.0, "play") for step in range(4, 7)))
    assert counted(tmp_path)[1] == 12


def test_a_shorter_file_with_equal_prompts_in_all_steps_is_doubtful(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0, "play") for step in range(1, 7)))
    put(tmp_path / "b.jsonl", (batch(step, 1.0, "play") for step in (4, 5)))
    by_step, older, remarks = counted(tmp_path)
    assert (by_step[4], older, remarks) == ((8, 0.5), 0, ["attempts"])


def test_each_resume_replaces_the_one_before(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0) for step in range(1, 7)))
    put(tmp_path / "b.jsonl", (batch(step, 0.5) for step in range(4, 10)))
    put(tmp_path / "c.jsonl", (batch(step, 1.0) for step in range(8, 12)))
    by_step, older, _ = counted(tmp_path)
    assert [mean for _, mean in by_step.values()] == [0.0] * 3 + [0.5] * 4 + [1.0] * 4
    assert older == 12 + 8


def test_ranks_are_resumed_together(tmp_path: Path) -> None:
    for rank in (0, 1):
        put(tmp_path / f"a_rank_{rank}.jsonl", (batch(step, 0.0) for step in range(1, 7)))
        put(tmp_path / f"b_rank_{rank}.jsonl", (batch(step, 1.0) for step in range(5, 8)))
    by_step, older, _ = counted(tmp_path)
    assert (by_step[5], by_step[7], older) == ((8, 1.0), (8, 1.0), 16)


def test_processes_without_a_rank_are_resumed_together(tmp_path: Path) -> None:
    for process in "wxyz":
        prompts = "task {step}-" + process
        put(tmp_path / f"a-{process}.jsonl", (batch(step, 0.0, prompts, 2) for step in range(1, 7)))
        put(tmp_path / f"b-{process}.jsonl", (batch(step, 1.0, prompts, 2) for step in range(4, 8)))
    by_step, older, _ = counted(tmp_path)
    assert (by_step[3], by_step[4], older) == ((8, 0.0), (8, 1.0), 24)


@pytest.mark.parametrize("prompts", ["task {step}-{index}", "play"])
def test_files_with_the_same_steps_are_of_processes(tmp_path: Path, prompts: str) -> None:
    for name in ("host1", "host2", "host3"):
        put(tmp_path / f"{name}.jsonl", (batch(step, 0.0, prompts) for step in range(1, 7)))
    assert counted(tmp_path) == (dict.fromkeys(range(1, 7), (12, 0.0)), 0, [])


def test_files_named_after_several_ranks_were_written_at_once(tmp_path: Path) -> None:
    """Their lines name the rank of the node, which is 0 in both."""
    put(tmp_path / "rank_0.jsonl", (batch(step, 0.0, rank=0) for step in range(1, 9)))
    put(tmp_path / "rank_1.jsonl", (batch(step, 1.0, rank=0) for step in range(6, 12)))
    by_step, older, _ = counted(tmp_path)
    assert (by_step[7], older) == ((8, 0.5), 0)


def test_a_rotated_log_shares_a_step_in_parts(tmp_path: Path) -> None:
    whole = [batch(step, 0.0, size=8) for step in range(1, 9)]
    put(tmp_path / "part-0.jsonl", [*whole[:4], whole[4][:6], whole[5][:2]])
    put(tmp_path / "part-1.jsonl", [whole[4][6:], whole[5][2:], *whole[6:]])
    assert counted(tmp_path) == (dict.fromkeys(range(1, 9), (8, 0.0)), 0, [])


def test_a_data_set_that_is_added_later_counts(tmp_path: Path) -> None:
    put(tmp_path / "math.jsonl", (batch(step, 0.0) for step in range(1, 9)))
    put(tmp_path / "code.jsonl", (batch(step, 0.0, "code {step}-{index}") for step in range(4, 12)))
    by_step, older, remarks = counted(tmp_path)
    assert (by_step[5], older, remarks) == ((8, 0.0), 0, [])


def test_other_prompts_of_the_same_data_are_doubtful(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", (batch(step, 0.0) for step in range(1, 9)))
    shuffled = {5: 2, 6: 1, 7: 8, 8: 3, 9: 7, 10: 4}
    put(
        tmp_path / "b.jsonl",
        ([line | {"step": step} for line in batch(like, 1.0)] for step, like in shuffled.items()),
    )
    by_step, older, remarks = counted(tmp_path)
    assert (by_step[6], older, remarks) == ((8, 0.5), 0, ["attempts"])


@pytest.mark.parametrize("form", ["{:.1f}", '"2026-05-01T10:{:04.1f}"'])
def test_times_show_which_file_was_written_later(tmp_path: Path, form: str) -> None:
    def timed(step: int, reward: float, at: float) -> list[Document]:
        return [line | {"timestamp": json.loads(form.format(at))} for line in batch(step, reward)]

    side, after = tmp_path / "side", tmp_path / "after"
    for folder in (side, after):
        put(folder / "a.jsonl", (timed(step, 0.0, step) for step in range(1, 7)))
    put(side / "b.jsonl", (timed(step, 1.0, step + 0.5) for step in range(1, 7)))
    put(after / "b.jsonl", (timed(step, 1.0, 10 + step) for step in range(1, 5)))
    assert counted(side)[1] == 0
    by_step, older, _ = counted(after)
    assert (by_step, older) == (dict.fromkeys(range(1, 5), (4, 1.0)), 24)


def test_a_repeated_evaluation_of_one_step_counts(tmp_path: Path) -> None:
    for run in range(3):
        put(tmp_path / f"eval{run}.jsonl", [batch(0, float(run), time=1e9 + run)])
    assert counted(tmp_path)[0] == {0: (12, 1.0)}


def test_files_of_epochs_count(tmp_path: Path) -> None:
    for epoch in (0, 1):
        steps = range(1 + 2 * epoch, 7)
        put(tmp_path / "named" / f"epoch_{epoch}" / "log.jsonl", (batch(step, 0.0) for step in steps))
        put(tmp_path / "logged" / f"{'ab'[epoch]}.jsonl", (batch(step, 0.0, epoch=epoch) for step in steps))
    for folder in ("named", "logged"):
        by_step, older, remarks = counted(tmp_path / folder)
        assert (by_step[2][0], by_step[4][0], older, remarks) == (4, 8, 0, ["epochs"])


def test_the_result_does_not_depend_on_the_order_of_reading(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run", Reading(cache=False))

    def look() -> dict[int, int]:
        index.rescan()
        while index.read():
            pass
        steps = index.snapshot.steps
        return dict(zip(steps.values.tolist(), steps.samples.tolist(), strict=True))

    put(tmp_path / "b.jsonl", (batch(step, 1.0) for step in range(4, 8)))
    assert look() == dict.fromkeys(range(4, 8), 4)
    put(tmp_path / "a.jsonl", (batch(step, 0.0) for step in range(1, 7)))
    assert look() == dict.fromkeys(range(1, 8), 4)
    (tmp_path / "b.jsonl").unlink()
    assert look() == dict.fromkeys(range(1, 7), 4)
