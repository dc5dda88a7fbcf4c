"""Pickles that name functions, leave their storage or need too much are read as nothing, or refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.errors import RLPanelError
from rlpanel.sources.pickles.plain_unpickler import read_torch
from rlpanel.sources.slime_convert import convert
from tests.torch_dump import Call, Named, Stored, write_torch

SAMPLE = {
    "group_index": 0,
    "index": 0,
    "prompt": "p",
    "tokens": [1, 2, 3],
    "response": "r",
    "response_length": 2,
}


def read(path: Path) -> tuple[Any, dict[str, int]]:
    with path.open("rb") as file:
        found, left_out = read_torch(file)
    return found, dict(left_out)


def converted(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rlpanel/0.jsonl").read_text().splitlines()]


class Program:
    """Pickled as a call of a function of this process."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_functions_that_a_pickle_names_are_not_called(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "proof"
    programs = [
        Program(os.system, f"touch {proof}"),
        Program(exec, f"open({str(proof)!r}, 'w')"),
        Program(open, str(proof), "w"),
        Program(getattr, os, "system"),
        Program(np.save, str(proof), [1]),
    ]
    (tmp_path / "a.pt").write_bytes(pickle.dumps({"samples": [1], "metadata": programs[:3]}, protocol))
    found, left_out = read(tmp_path / "a.pt")
    assert found["samples"] == [1]
    assert sum(left_out.values()) == 3
    assert any(name.endswith(".system") for name in left_out)
    assert not proof.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n(S'touch PROOF'\ntR.",
        b"(S'touch PROOF'\nios\nsystem\n.",
        b"(cos\nsystem\nS'touch PROOF'\no.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0btouch PROOF\x85R.",
        b"\x80\x04\x8c\x0frlpanel.runtime\x8c\x10os.path.realpath\x93\x8c\x05PROOF\x85\x81.",
        b"cbuiltins\n__import__\n(S'PROOF'\ntR.",
        b"cnumpy.lib.npyio\nload\n(S'PROOF'\ntR.",
        b"ctorch.storage\n_load_from_bytes\n(S'PROOF'\ntR.",
        b"crlpanel.sources.pickles.plain_unpickler\nALLOWED\n.",
    ],
)
def test_each_opcode_that_names_something_gives_an_empty_object(
    tmp_path: Path, code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _ = read_torch(io.BytesIO(code))
    name = type(found).__name__ if not isinstance(found, type) else found.__name__
    assert name == "EmptyObject"
    assert not (tmp_path / "PROOF").exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (b"\x82\x01.", "no pickle"),  # an extension
        (b"P12\n.", "outside of the file"),
        (b"(lp0\ng0\n", "no pickle"),
        (b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "no pickle"),
    ],
)
def test_broken_programs_are_errors(code: bytes, said: str) -> None:
    with pytest.raises(RLPanelError, match=said):
        read_torch(io.BytesIO(code))


STORAGE = np.arange(4, dtype=np.float32)


def tensor(offset: Any, size: Any, stride: Any) -> Any:
    """Return a tensor of one storage of four numbers."""
    made = Stored(STORAGE)
    return Call("torch._utils", "_rebuild_tensor_v2", made, offset, size, stride, False, None)


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (0, (5,), (1,)),
        (4, (1,), (1,)),
        (0, (2,), (4,)),
        (-1, (1,), (1,)),
        (0, (2,), (-1,)),
        (0, (1 << 40,), (0,)),
        (0, (2, 2), (1,)),
        (0, (2.0,), (1,)),
        (1 << 70, (1,), (1,)),
    ],
)
def test_tensors_stay_inside_their_storage(tmp_path: Path, offset: Any, size: Any, stride: Any) -> None:
    path = write_torch(tmp_path / "a.pt", {"t": tensor(offset, size, stride)})
    with pytest.raises(RLPanelError, match="tensor"):
        read(path)


def test_tensors_have_the_values_of_numpy(tmp_path: Path) -> None:
    arrays = {
        "f4": np.linspace(-1, 1, 7, dtype=np.float32), "f8": np.zeros((2, 3)), "i8": np.array(7),
        "f2": np.ones(2, np.float16), "b1": np.array([True, False]), "empty": np.empty(0, np.float32),
        "transposed": np.arange(6, dtype=np.int64).reshape(2, 3),
    }  # fmt: skip
    found, left_out = read(write_torch(tmp_path / "a.pt", arrays))
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in arrays.items()
    }
    assert not left_out


def test_arrays_of_numpy_and_plain_classes_are_read(tmp_path: Path) -> None:
    for protocol in (0, 2, 5):
        value = {
            "a": np.arange(3.0),
            "b": np.float64(0.5),
            "c": {1, 2},
            "d": bytearray(b"x"),
            "e": np.array(["x", "yy"]),
        }
        (tmp_path / "a.pt").write_bytes(pickle.dumps(value, protocol))
        found, left_out = read(tmp_path / "a.pt")
        assert (found["a"].tolist(), found["b"], sorted(found["c"])) == ([0.0, 1.0, 2.0], 0.5, [1, 2])
        assert found["e"].tolist() == ["x", "yy"]
        assert not left_out


def test_compressed_parts_are_refused(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "a.pt", {"t": np.zeros(1_000_000)}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(RLPanelError, match="compressed"):
        read(path)


def shared_lists() -> list[Any]:
    """Return lists that hold the same list again and again: 10¹² values in a few bytes."""
    found: list[Any] = [0]
    for _ in range(12):
        found = [found] * 10
    return found


@pytest.mark.parametrize(
    "sample",
    [
        {"prompt": shared_lists()},
        {"rollout_log_probs": Call("builtins", "bytearray", b"x"), "tokens": 3},
        {"response_length": "many"},
        {"reward": Call("os", "system", "true"), "metadata": {"x": Named("os", "system")}},
    ],
)
def test_a_hostile_sample_ends_in_one_line_or_is_left_out(tmp_path: Path, sample: dict[str, Any]) -> None:
    write_torch(tmp_path / "rollout_data/0.pt", {"rollout_id": 0, "samples": [SAMPLE | sample]})
    try:
        done = convert(tmp_path)
    except RLPanelError as error:
        assert "\n" not in str(error)  # noqa: PT017  some samples are read, others refused
        assert not (tmp_path / "rlpanel/0.jsonl").exists()
    else:
        (line,) = converted(tmp_path)
        assert (line["response"], "reward" in line) == ("r", False)
        assert done.left_out["os.system"] == 1


def test_memory_is_limited_by_the_files_size(tmp_path: Path) -> None:
    """A memo with a large number makes Python reserve 32 GB for it."""
    (tmp_path / "rollout_data").mkdir()
    (tmp_path / "rollout_data/0.pt").write_bytes(b"\x80\x02]r\xff\xff\xff\x7f.")
    with pytest.raises(RLPanelError, match="memory"):
        convert(tmp_path)


def test_the_process_that_reads_cannot_write(tmp_path: Path) -> None:
    """A link and a pipe in place of a dump are refused, and nothing is written beside."""
    (tmp_path / "secret.pt").write_bytes(pickle.dumps({"samples": []}))
    (tmp_path / "dump/rollout_data").mkdir(parents=True)
    (tmp_path / "dump/rollout_data/0.pt").symlink_to(tmp_path / "secret.pt")
    with pytest.raises(RLPanelError, match="is a link"):
        convert(tmp_path / "dump")


def test_objects_of_an_environment_are_named_and_left_out(tmp_path: Path) -> None:
    odd = SAMPLE | {"metadata": {"path": Call("pathlib", "PosixPath", "x"), "state": Call("env", "State")}}
    write_torch(tmp_path / "rollout_data/0.pt", {"rollout_id": 0, "samples": [odd, SAMPLE | {"index": 1}]})
    done = convert(tmp_path)
    assert (done.samples, dict(done.left_out)) == (2, {"pathlib.PosixPath": 1, "env.State": 1})
    assert [line["response"] for line in converted(tmp_path)] == ["r", "r"]
