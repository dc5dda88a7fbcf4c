"""The writer: complete lines, strict JSON, and nothing that could delay or end a training run."""

from __future__ import annotations

import base64
import io
import json
import logging
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from PIL import Image

from rlpanel import RolloutWriter, open_run
from rlpanel.errors import SettingError
from rlpanel.recording.writer import sink
from rlpanel.recording.writer.encode import KNOWN_KEYS
from rlpanel.schema import CANONICAL
from tests.media import CLIP, in_base64, sound

NAME = "rollout_data_rank_0.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def write(folder: Path, *, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
    settings = fields.pop("settings", {})
    with RolloutWriter(folder, **settings) as writer:
        for step in range(1, count + 1):
            writer.write(**({"step": step, "prompt": "p", "response": "r"} | fields))
    return lines(folder / NAME)


class Tensor:
    """The interface of torch's tensors, without torch."""

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self.device = type("Device", (), {"type": "cpu"})()

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return Tensor(list(self.values))

    def tolist(self) -> list[float]:
        return self.values

    def __len__(self) -> int:
        return len(self.values)


@pytest.mark.parametrize(
    "values",
    [[0.1, math.nan, math.inf], np.array([0.1, math.nan, -math.inf]), Tensor([0.1, math.nan, math.inf])],
    ids=["list", "numpy", "tensor"],
)
def test_what_is_no_number_becomes_null(tmp_path: Path, values: Any) -> None:
    assert (
        write(tmp_path, logprobs=values, reward=math.nan)[0].items()
        >= {
            "logprobs": [0.1, None, None],
            "reward": None,
        }.items()
    )


def test_rollouts_are_read_by_the_board(tmp_path: Path) -> None:
    write(tmp_path, count=3, reward=0.5, logprobs=np.array([-1.0, -2.0]), rewards={"rhyme": 1.0})
    with open_run(tmp_path, follow=False) as run:
        assert run.samples()[["step", "rank", "reward", "rewards/rhyme"]].values.tolist() == [
            [step, 0, 0.5, 1.0] for step in (1, 2, 3)
        ]


def test_a_later_change_of_an_array_is_not_recorded(tmp_path: Path) -> None:
    values, numbers, tensor = [1.0], np.array([1.0]), Tensor([1.0])
    with RolloutWriter(tmp_path) as writer:
        gate = threading.Event()
        writer.write(step=0, prompt=lambda: str(gate.wait(60)))  # blocks the thread until all rows changed
        for array in (values, numbers, tensor):
            writer.write(step=1, prompt="p", logprobs=array)
        values[0] = numbers[0] = tensor.values[0] = 9.0
        gate.set()
    assert [row.get("logprobs") for row in lines(tmp_path / NAME)] == [None, [1.0], [1.0], [1.0]]


def test_digits_and_caps_are_settings(tmp_path: Path) -> None:
    settings = {"digits": 2, "text_chars": 3, "tokens": 2}
    row = write(tmp_path, response="abcdef", logprobs=[0.126, 0.1, 0.1], settings=settings)[0]
    assert (row["response"], row["logprobs"], row["tokens_cut"]) == ("abc…", [0.13, 0.1], 1)


def test_a_float32_comes_back_exactly(tmp_path: Path) -> None:
    number = float(np.float32(1.2345678e-7))
    assert np.float32(write(tmp_path, reward=number)[0]["reward"]) == np.float32(number)


def test_the_environment_sets_what_the_call_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_RECORD_DIGITS", "1")
    assert write(tmp_path / "a", logprobs=[0.16])[0]["logprobs"] == [0.2]
    assert write(tmp_path / "b", logprobs=[0.16], settings={"digits": 3})[0]["logprobs"] == [0.16]


@pytest.mark.parametrize("settings", [{"digits": -1}, {"digits": 1.5}, {"digit": 3}, {"queue_rows": 0}])
def test_a_setting_that_cannot_be_is_refused_at_once(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        RolloutWriter(tmp_path, **settings)


def test_a_full_queue_drops_and_counts_and_never_blocks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    with caplog.at_level(logging.WARNING), RolloutWriter(tmp_path, queue_rows=2) as writer:
        writer.write(step=0, prompt=lambda: str(gate.wait(60)))
        taken = [writer.write(step=step, prompt="p") for step in range(1, 11)]
        dropped = writer.dropped
        gate.set()
    assert 2 <= taken.count(True) <= 3  # the thread may have taken the first one already
    assert dropped == taken.count(False)
    assert f"{dropped} dropped because the queue was full" in caplog.text


def test_a_misspelt_key_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), RolloutWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(step=step, prompt="p", respones="4", rewrad=1.0, reward_std=0.5, difficulty=2)
    assert caplog.text.count("unknown key 'rewrad' becomes a column of its own; did you mean 'reward'?") == 1
    assert caplog.text.count("did you mean 'response'?") == 1
    assert caplog.text.count("unknown key") == 2
    assert [row["rewrad"] for row in lines(tmp_path / NAME)] == [1.0, 1.0, 1.0]


def test_the_recorder_knows_all_keys_of_the_schema() -> None:
    assert {*CANONICAL, "rewards", "session", "time"} == KNOWN_KEYS


def test_a_value_that_cannot_be_written_costs_its_row_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise RuntimeError("no text")

    with caplog.at_level(logging.WARNING), RolloutWriter(tmp_path) as writer:
        writer.write(step=1, prompt=broken)
        writer.write(step=2, prompt="p")
    assert [row["step"] for row in lines(tmp_path / NAME)] == [2]
    assert "RuntimeError: no text" in caplog.text


def test_a_disk_that_takes_half_a_line_gets_the_rest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, refusals = os.write, iter([5, OSError(28, "No space left on device")])

    def narrow(descriptor: int, data: bytes) -> int:
        answer = next(refusals, None)
        if isinstance(answer, OSError):
            raise answer
        return whole(descriptor, data[:answer])

    file = sink.PlainSink(tmp_path / "log")
    monkeypatch.setattr(os, "write", narrow)
    with pytest.raises(OSError, match="No space"):
        file.write(b"first line\n")
    file.write(b"second\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"first line\nsecond\n"


def test_a_half_line_of_a_killed_process_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"step": 1, "pro')
    with RolloutWriter(tmp_path) as writer:
        writer.write(step=2, prompt="p")
    assert (tmp_path / NAME).read_bytes().startswith(b'{"step": 1, "pro\n{')


def test_compressed_frames_end_at_line_ends(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path, compress=True) as writer:
        for step in (1, 2):
            writer.write(step=step, prompt="p")
            assert writer.flush()
    data = next(tmp_path.glob("*.jsonl.zst")).read_bytes()
    first = zstandard.ZstdDecompressor().decompressobj()
    assert [json.loads(line)["step"] for line in first.decompress(data).splitlines()] == [1]
    assert first.unused_data.startswith(zstandard.FRAME_HEADER)


def test_constants_and_scalars_are_written_next_to_the_rollouts(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path) as writer:
        writer.constants(algo="grpo", beta=0.1)
        writer.constants(gamma=1.0)
        writer.scalars(7, {"loss": np.float32(0.5), "kl": math.nan})
        writer.write(step=7, prompt="p")
    assert json.loads((tmp_path / "run.json").read_text()) == {"algo": "grpo", "beta": 0.1, "gamma": 1.0}
    assert lines(tmp_path / "scalars.jsonl")[0].items() >= {"step": 7, "loss": 0.5, "kl": None}.items()
    with open_run(tmp_path, follow=False) as run:
        assert run.stats().rows == 1


# -- images ----------------------------------------------------------------------------------------


def image(color: str) -> Image.Image:
    return Image.new("RGB", (3, 2), color)


def data_url(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def test_images_become_files_beside_the_log(tmp_path: Path) -> None:
    red, blue = image("red"), image("blue")
    message = {"role": "user", "content": [{"type": "image", "image": red}, {"type": "text", "text": "?"}]}
    embedded = {"type": "image_url", "image_url": {"url": data_url(red)}}
    (row,) = write(tmp_path, messages=[message, {"role": "user", "content": [embedded]}], images=[blue, red])
    blue_path, red_path = row["images"]
    assert row["messages"][0]["content"][0]["image"] == red_path
    assert row["messages"][1]["content"][0]["image_url"]["url"] == red_path
    assert sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "images").iterdir()) == sorted(
        {red_path, blue_path}
    )
    with Image.open(tmp_path / blue_path) as saved:
        assert saved.getpixel((0, 0)) == (0, 0, 255)
    with open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert sample.messages[0]["images"] == [{"url": red_path}]


def test_audio_and_video_become_files_beside_the_log(tmp_path: Path) -> None:
    spoken = {"type": "input_audio", "input_audio": {"data": in_base64(sound(0.1)), "format": "wav"}}
    seen = {"type": "video", "video": f"data:video/webm;base64,{in_base64(CLIP)}"}
    (row,) = write(
        tmp_path,
        settings={"text_chars": 1_000},
        messages=[{"role": "user", "content": [spoken, seen]}],
        response="A tone.",
    )
    audio, video = (part[part["type"]] for part in row["messages"][0]["content"])
    assert (audio["format"], Path(audio["url"]).suffix, Path(video).suffix) == ("wav", ".wav", ".webm")
    assert (tmp_path / audio["url"]).read_bytes() == sound(0.1)
    assert (tmp_path / video).read_bytes() == CLIP
    with open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    expected = [{"kind": "audio", "url": audio["url"]}, {"kind": "video", "url": video}]
    assert sample.messages[0]["media"] == expected
    assert (sample.columns["audios"], sample.columns["videos"]) == (1, 1)


def test_an_image_that_cannot_be_written_does_not_lose_the_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "images").symlink_to(outside)
    with caplog.at_level(logging.WARNING):
        (row,) = write(tmp_path / "run", images=[image("red"), "data:image/png;base64,???"], reward=1.0)
    assert row["images"] == ["not written"] * 2
    assert row["reward"] == 1.0
    assert not list(outside.iterdir())
    assert sum("image" in message for message in caplog.messages) == 2
