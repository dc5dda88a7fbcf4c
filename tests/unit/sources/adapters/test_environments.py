"""Groups that atropos wrote (`BaseEnv.handle_send_to_api`), and evaluations of RAGEN (`_save_as_jsonl`)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append
from tests.unit.sources.adapters.test_adapters import UPSTREAM
from tests.unit.store.index.test_run_index import look

ATROPOS, RAGEN = UPSTREAM / "atropos-0.4.0", UPSTREAM / "ragen-20daedc"


def rows(folder: Path, split: str, *columns: str) -> list[list[Any]]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty
        assert not len(run.unread)
        frame = run.split(split).samples(text=True).astype(object)
    return frame.where(frame.notna(), None)[list(columns)].values.tolist()


@pytest.mark.parametrize(("folder", "files"), [(ATROPOS, 1), (RAGEN, 2)])
def test_the_files_of_an_environment_are_a_run(folder: Path, files: int) -> None:
    assert [(info.name, info.files, info.rewarded) for info in rlpanel.discover(folder)] == [
        (".", files, True)
    ]


# -- atropos -------------------------------------------------------------------------------------------


def test_another_array_of_tokens_of_atropos_is_a_column_under_its_own_name(tmp_path: Path) -> None:
    group = {
        "tokens": [[1, 2, 3, 4], [1, 2, 5]],
        "masks": [[-100, 2, 3, 4], [-100, -100, 5]],
        "scores": [1.0, 0.0],
        "token_scores": [[0.0, 0.5, 0.25, 0.75], [0.0, 0.0, 1.5]],
    }
    (tmp_path / "groups.jsonl").write_text(json.dumps(group) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        found = [run.sample(uid) for uid in run.samples()["uid"]]
    assert [each.token_arrays["token_scores"].tolist() for each in found] == [[0.5, 0.25, 0.75], [1.5]]
    assert [each.arrays()["loss_mask"].tolist() for each in found] == [[1, 1, 1], [1]]


def test_a_line_is_a_group_whatever_it_asked() -> None:
    """Both groups have one prompt; the place of a line tells them apart."""
    second = len((ATROPOS / "sums.jsonl").read_bytes().splitlines(keepends=True)[0])
    assert rows(ATROPOS, "train", "step", "group", "reward") == [
        [0, "sums:0", 1.0], [0, "sums:0", -1.0], [0, f"sums:{second}", 1.0], [0, f"sums:{second}", 0.0],
    ]  # fmt: skip


def test_tokens_that_are_not_trained_are_outside_of_the_mask_and_have_no_logprob() -> None:
    with rlpanel.open_run(ATROPOS, follow=False) as run:
        frame = run.samples()
        sample = run.sample(frame["uid"][0])
    arrays = sample.arrays()
    assert bytes(arrays["response_token_ids"].astype(int).tolist()) == b"add=44"
    assert arrays["loss_mask"].tolist() == [1, 1, 1, 0, 0, 1]
    assert arrays["rollout_logprobs"].tolist() == pytest.approx(
        [-0.5] * 3 + [math.nan] * 2 + [-0.5], nan_ok=True
    )
    assert frame["engine_logprob_mean"].tolist() == [-0.5] * 4
    assert frame["response_tokens"].tolist() == [4, 7, 4, 4]
    assert frame["context_tokens"].tolist() == [2] * 4
    assert (sample.prompt, sample.response) == ("[user] 2+2?", "[assistant] add\n[tool] =4\n[assistant] 4")
    assert sample.turn_rewards is not None
    assert sample.turn_rewards.tolist() == pytest.approx([math.nan, 1.0], nan_ok=True)


def test_decoded_tokens_are_not_taken_for_a_prompt() -> None:
    """Without messages atropos writes the whole text as the user's."""
    with rlpanel.open_run(ATROPOS, follow=False) as run:
        sample = run.sample(run.samples()["uid"][2])
    assert sample.prompt is None
    assert sample.extra["transcript"] == [{"role": "user", "content": "2+2?add=46"}]


def test_lists_of_unequal_length_make_the_line_bad_and_a_policy_called_agent_is_understood(
    tmp_path: Path,
) -> None:
    first = json.loads((ATROPOS / "sums.jsonl").read_bytes().splitlines()[0])
    for messages in first["messages"]:
        messages[1]["role"] = messages[3]["role"] = "agent"
    changed = [first, first | {"scores": [1.0]}, first | {"masks": [[1], [2]]}, first | {"tokens": 3}]
    append(tmp_path / "a.jsonl", *(json.dumps(each).encode() + b"\n" for each in changed))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.sample(run.samples()["uid"][0]).response == "[assistant] add\n[tool] =4\n[assistant] 4"
        assert run.errors["reason"].tolist() == [
            "lists of unequal length: 'tokens' 2, 'masks' 2, 'scores' 1",
            "the 'tokens' and the 'masks' of a sample have different lengths",
            "'tokens' is not a list",
        ]


def test_groups_are_followed_while_they_are_appended(tmp_path: Path) -> None:
    lines = (ATROPOS / "sums.jsonl").read_bytes().splitlines(keepends=True)
    append(tmp_path / "sums.jsonl", lines[0], lines[1][:200])
    index = RunIndex(tmp_path, "run")
    assert look(index).rows == 2
    append(tmp_path / "sums.jsonl", lines[1][200:])
    shot = look(index)
    groups = RunView(shot).frame(shot.alive_rows)["group"].tolist()
    assert groups == [group for (group,) in rows(ATROPOS, "train", "group")]


# -- RAGEN ---------------------------------------------------------------------------------------------


def test_evaluations_have_step_0_and_groups_of_their_own() -> None:
    """Both files count their groups from 0."""
    first, second = "20260414_120000", "20260415_120000"
    found = rows(RAGEN, "eval", "step", "group", "reward", "success", "turns", "n_tokens", "logged_entropy")
    assert found == [
        *([0, f"{first}:{at // 2}", at % 2, at % 2, 2, 7, 0.25] for at in range(4)),
        *([0, f"{second}:{at // 2}", 1 - at % 2, 1 - at % 2, 2, 7, 0.25] for at in range(4)),
    ]


def test_states_after_an_answer_are_the_environments_and_the_last_one_is_no_response() -> None:
    assert rows(RAGEN, "eval", "prompt", "response")[:2] == [
        ["[user] board 1", "[assistant] <think>a</think>up\n[environment] board 2\n[assistant] left"],
        [
            "[user] board 1",
            "[assistant] <think>a</think>up\n[environment] board 2 (reward: 1.0)\n[assistant] left",
        ],
    ]


def test_a_line_of_another_shape_is_bad(tmp_path: Path) -> None:
    line = json.loads((RAGEN / "val_rollouts_20260414_120000.jsonl").read_bytes().splitlines()[0])
    changed = [line, line | {"messages": "x"}, line | {"metadata": [1]}]
    append(tmp_path / "val_rollouts.jsonl", *(json.dumps(each).encode() + b"\n" for each in changed))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.split("eval").samples()["group"].tolist() == ["0"], "no time in the file's name"
        assert run.errors["reason"].tolist() == ["'messages' is not a list", "'metadata' is not an object"]
