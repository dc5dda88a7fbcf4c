"""Chains of changes in drawn runs: the first cause, its effects, decoys, and what cannot be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.bisect.bisection import STAGES, Bisection
from rlpanel.bisect.chain import BisectProgress, bisect_run
from rlpanel.errors import SettingError
from rlpanel.findings.engine.finding import Finding
from rlpanel.store.index.run_index import RunIndex
from tests.bench.bisect_runs.chain_kinds import KINDS
from tests.bench.bisect_runs.chain_run import ChainRun
from tests.bench.chains import bisected
from tests.bench.finding_scores import open_folder
from tests.factories import line
from tests.unit.findings.test_real_faults import unpacked

Drawn = tuple[RunIndex, ChainRun]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """A run in which a tool fails, then turns get fewer, then the reward falls."""
    made = ChainRun(KINDS["tool_errors"], [1, *b"tool_errors"])
    return open_folder(made.write(tmp_path_factory.mktemp("errors") / "run")), made


@pytest.fixture(scope="module")
def found(errors: Drawn) -> Bisection:
    """The chain of that run."""
    index, made = errors
    return bisected(index, bad=made.third + 4)


def test_a_chain_leads_from_the_failing_tool_to_the_reward(errors: Drawn, found: Bisection) -> None:
    _, made = errors
    assert found.state == "chain"
    first, target = found.links[0], found.links[-1]
    assert first.column == "failed_calls"
    assert "search" in first.place
    assert abs(first.step - 1 - made.onset) <= 3
    assert abs(target.step - 1 - made.third) <= 3
    assert [link.step for link in found.links] == sorted(link.step for link in found.links)
    assert target.after < target.before
    assert first.share > 0.5
    assert first.error > 0


def test_links_name_samples_that_carry_them(errors: Drawn, found: Bisection) -> None:
    index, _ = errors
    first = found.links[0]
    snapshot = index.view.snapshot
    rows = [snapshot.row(uid) for uid in first.uids]
    assert rows
    assert all(snapshot.number("failed_calls")[row] == 1 for row in rows)
    assert all(snapshot.metadata("step")[row] >= first.step for row in rows)


def test_decoys_explain_nothing(errors: Drawn, found: Bisection) -> None:
    _, made = errors
    decoys = {name for _, name in made.decoys}
    assert not decoys & {link.column for link in found.links}
    assert all(link.role != "follows" for link in found.also if link.column in decoys)


def test_without_the_failing_samples_the_reward_is_as_before(found: Bisection) -> None:
    removal = found.removal
    assert removal is not None
    assert removal.names
    assert removal.undone >= 0.8
    assert abs(removal.without - removal.before) < 0.2 * abs(found.links[-1].after - removal.before) + 0.01
    assert found.removed is not None
    assert removal.names[0] in found.removed.text


def test_progress_comes_before_the_answer(errors: Drawn) -> None:
    index, made = errors
    *steps, last = bisect_run(
        index, index.view, "reward", made.third + 4, now=index.view.snapshot.newest_line + 2
    )
    done = [each.done for each in steps if isinstance(each, BisectProgress)]
    assert len(done) == len(steps) >= 3
    assert done == sorted(done)
    assert isinstance(last, Bisection)


def test_progress_goes_on_with_each_change_that_is_tried(tmp_path: Path) -> None:
    """The reward falls twice, and nothing explains it: the fall nearer to the bad step is tried, too."""
    (tmp_path / "run").mkdir()
    lines = [
        line(step=step, index=at, group=f"{step}-{at // 4}", reward=(step * 7 + at * 3) % 5 / 5 - falls / 2)
        for step in range(48)
        for falls in [(step >= 30) + (step >= 36)]
        for at in range(16)
    ]
    (tmp_path / "run" / "rollout_data_rank_0.jsonl").write_bytes(b"".join(lines))
    index = open_folder(tmp_path / "run")
    *steps, last = bisect_run(index, index.view, "reward", 37, now=index.view.snapshot.newest_line + 2)
    assert isinstance(last, Bisection)
    assert last.state == "alone"
    pulses = [each for each in steps if isinstance(each, BisectProgress)]
    done = [each.done for each in pulses]
    assert done == sorted(set(done))
    assert sum(each.text == STAGES[1] for each in pulses) == 2


def test_what_changed_in_all_samples_is_named_though_nothing_carries_the_fall(tmp_path: Path) -> None:
    made = ChainRun(KINDS["entropy_collapses"], [2, *b"entropy_collapses"])
    found = bisected(open_folder(made.write(tmp_path / "run")), bad=made.third + 4)
    assert found.state == "alone"
    assert "only the time speaks for them: 35: entropy" in found.sentence.text


def test_the_bad_step_is_the_onset_of_a_finding_on_the_number(errors: Drawn) -> None:
    index, made = errors
    finding = Finding(severity="alarm", sentence="x", steps=(made.third + 2,), column="reward")
    *_, last = bisect_run(index, index.view, "reward", None, [finding], index.view.snapshot.newest_line + 2)
    assert isinstance(last, Bisection)
    assert last.bad == made.third + 2


def test_a_step_or_number_that_the_run_lacks_is_an_error(errors: Drawn) -> None:
    index, _ = errors
    for target, bad in (("reward", 10_000), ("nosuch", 10)):
        with pytest.raises(SettingError):
            list(bisect_run(index, index.view, target, bad, now=index.view.snapshot.newest_line + 2))


def test_a_stationary_run_shows_no_change_and_says_which_would_have_been_found(tmp_path: Path) -> None:
    found = bisected(open_folder(ChainRun(None, [4, 77], decoying=False).write(tmp_path / "run")))
    assert (found.state, found.links) == ("noise", ())
    assert found.least > 0
    assert "no change beyond noise" in found.sentence.text


@pytest.mark.parametrize(("steps", "state"), [(3, "short"), (5, "noise")])
def test_few_steps_are_no_chain(tmp_path: Path, steps: int, state: str) -> None:
    lines = [
        line(step=step, group=f"{step}", reward=(step * 7 + at * 3) % 5 / 5)
        for step in range(steps)
        for at in range(4)
    ]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rollout_data_rank_0.jsonl").write_bytes(b"".join(lines))
    found = bisected(open_folder(tmp_path / "run"))
    assert found.state == state
    assert found.links == ()


@pytest.mark.parametrize(
    ("fault", "name"),
    [("rate", "learning_rate"), ("template", "prompts that end with"), ("cached_tool", "tool results")],
)
def test_the_first_link_of_a_real_fault_is_its_cause(fault: str, name: str, tmp_path: Path) -> None:
    found = bisected(open_folder(unpacked(fault, tmp_path)))
    assert found.first is not None
    assert found.first.name.startswith(name)
    assert abs(found.first.step - 25) <= 3
    assert any("order of time" in said.text for said in found.unknown)


def test_a_real_healthy_training_has_no_chain(tmp_path: Path) -> None:
    assert bisected(open_folder(unpacked("healthy", tmp_path))).state == "noise"
