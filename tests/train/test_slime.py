"""slime's dumps as written by torch, converted by the command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rlpanel import open_run
from rlpanel.schema import Sample
from tests.train.conftest import ROOT, TRAIN

#: Dumps that slime's own functions wrote, of two data-parallel ranks; rollout 1 was not trained on yet.
RECORDED = ROOT / "tests" / "data" / "upstream" / "slime-624b824a8"

#: A dump of two samples, and one whose metadata is an object of a class.
MAKE = """
import pathlib, sys, torch
folder = pathlib.Path(sys.argv[1])
for kind in ("rollout_data", "train_data"):
    (folder / kind).mkdir(parents=True)
sample = {"group_index": 0, "prompt": "p", "tokens": [1, 2, 3], "response": "r", "response_length": 2,
          "reward": 0.5, "rollout_log_probs": [-0.1, -0.2], "status": "completed", "metadata": {}}
torch.save({"rollout_id": 7, "samples": [sample, sample | {"response": "s"}]}, folder / "rollout_data/7.pt")
trained = [{"rollout_position": at, "log_probs": torch.tensor([-1.0 - at, -2.0])} for at in (1, 0)]
torch.save({"format_version": 2, "samples": trained}, folder / "train_data/7.pt")
if len(sys.argv) > 2:
    odd = sample | {"metadata": {"path": pathlib.Path("x")}}
    torch.save({"rollout_id": 8, "samples": [odd]}, folder / "rollout_data/8.pt")
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in the environment that has torch."""
    return subprocess.run(
        [TRAIN / "bin" / "python", *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )


def convert(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from pathlib import Path; from rlpanel.sources.slime_convert import convert; "
    code += "print(convert(Path(sys.argv[1]), Path(sys.argv[1]) / 'rlpanel'))"
    return run("-c", code, folder)


def test_dumps_become_lines_and_are_joined(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path)
    first, again = convert(tmp_path), convert(tmp_path)
    assert "files=1, samples=2, kept=0" in first.stdout, first.stderr
    assert "files=0, samples=0, kept=1" in again.stdout, again.stderr
    with open_run(tmp_path / "rlpanel", follow=False) as opened:
        samples = [opened.sample(uid) for uid in opened.samples()["uid"]]
    assert [(sample.step, sample.response, sample.reward) for sample in samples] == [
        (7, "r", 0.5), (7, "s", 0.5),
    ]  # fmt: skip
    assert [sample.logprobs.tolist() for sample in samples if sample.logprobs is not None] == [
        [-1.0, -2.0], [-2.0, -2.0],
    ]  # fmt: skip
    assert samples[0].rollout_logprobs == pytest.approx([-0.1, -0.2])


def test_an_object_of_a_class_is_named_and_left_out(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path, "odd")
    done = convert(tmp_path)
    assert "files=2, samples=3" in done.stdout, done.stderr
    assert "pathlib" in done.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], list[Sample]]:
    """Samples of slime's own dumps, converted by the command, by step and split."""
    folder = tmp_path_factory.mktemp("slime") / "dump"
    shutil.copytree(RECORDED, folder)
    done = run("-m", "rlpanel", "convert", "slime", folder)
    assert "10 samples in 3 files" in done.stdout, done.stderr
    found: dict[tuple[int, str], list[Sample]] = {}
    with open_run(folder / "rlpanel", follow=False) as opened:
        assert opened.errors.empty
        for split in ("train", "eval", "discarded eval"):
            part = opened.split(split)
            for uid in part.samples()["uid"]:
                sample = part.sample(uid)
                found.setdefault((sample.step, split), []).append(sample)
    return found


def test_slimes_own_dump_gives_the_batch(recorded: dict[tuple[int, str], list[Sample]]) -> None:
    for step in (0, 1):
        assert [
            (each.group, each.response, each.reward, each.ground_truth, each.finish_reason, each.status)
            for each in recorded[step, "train"]
        ] == [
            ("0", "<a>4四🙂", 1.0, "4", "completed", "ok"),
            ("0", "five", 0.0, "4", "truncated", "truncated"),
            ("1", "Titan", 1.0, "Titan", "completed", "ok"),
            ("1", "Mars", 0.25, "Titan", "failed", "tool_error"),
        ]
    tool, *_, last = recorded[0, "train"]
    assert tool.prompt == "[system] Use the tool.\n[user] [image]\n2 + 2 等于几？ 🙂"
    assert tool.messages[1]["images"] == [{"url": "a/b.png"}]
    assert last.prompt == "Name a moon."
    assert (tool.columns["rewards/format"], tool.columns["response_tokens"]) == (0.5, 5.0)


@pytest.mark.case("slime", "ranks")
@pytest.mark.case("slime", "masked")
def test_slimes_arrays_of_training_are_joined_to_their_samples(
    recorded: dict[tuple[int, str], list[Sample]],
) -> None:
    """The two ranks dumped the samples in the order 2, 0 and 3, 1; the batch gives each its place."""
    advantages = [0.5**0.5, -(0.5**0.5)] * 2
    for place, (sample, advantage) in enumerate(zip(recorded[0, "train"], advantages, strict=True)):
        arrays, count = sample.arrays(), len(sample.response or "")
        assert [chr(int(number)) for number in arrays["response_token_ids"]] == list(sample.response or "")
        assert arrays["logprobs"].tolist() == [-1.0 - place] * count
        assert arrays["ref_logprobs"].tolist() == [-2.0 - place] * count
        assert arrays["values"].tolist() == [0.5 * place] * count
        assert arrays["entropy"].tolist() == [0.125 * place] * count
        assert arrays["advantages"].tolist() == pytest.approx([advantage] * count, rel=1e-5)
        assert arrays["returns"].tolist() == arrays["advantages"].tolist()
    tool = recorded[0, "train"][0].arrays()
    assert tool["loss_mask"].tolist() == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert tool["rollout_logprobs"].tolist() == pytest.approx([-0.1, -0.2, -0.3, 0.0, -0.4, -0.5])
    assert recorded[1, "train"][0].logprobs is None


@pytest.mark.case("slime", "evaluation")
@pytest.mark.case("slime", "aborted")
def test_slimes_evaluation_is_eval_and_an_aborted_sample_discarded(
    recorded: dict[tuple[int, str], list[Sample]],
) -> None:
    (done,) = recorded[0, "eval"]
    (aborted,) = recorded[0, "discarded eval"]
    assert (done.response, done.reward, done.status) == ("Titan", 1.0, "ok")
    assert (aborted.response, aborted.status, aborted.response_token_ids) == ("", "discarded", None)
