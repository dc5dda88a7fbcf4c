"""Mutates logs of trainers and opens them, to find errors that are not rlpanel's own.

The tests run a few seeds. By hand, ``python -m tests.adapter_fuzz SEED FILES FOLDER …`` prints the places
that fail.
"""

from __future__ import annotations

import copy
import io
import json
import random
import shutil
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rlpanel
from rlpanel.errors import RLPanelError
from rlpanel.findings.check import FAILED
from rlpanel.panels.conversation.conversation_payload import pack_conversation
from rlpanel.sources.files.file_access import follow_file
from rlpanel.sources.files.zip_members import list_members, read_member

#: Larger files are left out.
MAX_BYTES = 400_000
#: Values that trainers write by mistake, and that break what expects another type, shape or size.
VALUES: tuple[Any, ...] = (
    *(10**400, -(10**400), 1e308, float("nan"), float("inf"), -0.0, 2**63, 2**64, -(2**63) - 1),
    *("", [], {}, None, True, False, "\ud800", "x\0y", [[]], [None], {"a": None}, [[[1]]], "1e999", "NaN"),
    *("9" * 5000, "-1", [1, "a", None], {"": ""}, {"__proto__": 1}, [True], [10**400], [float("nan")] * 3),
    *("\u202e", "<" * 50, [{}], [[1, 2], [3]], {"role": "assistant"}, [{"role": None, "content": None}]),
    *([{"role": "user", "content": [{"type": "text"}]}], [{"role": "tool", "tool_calls": [{"function": 0}]}]),
    *("[1,2", "{'a': []", "('x'," * 50, '{"a":' * 300, "data:image/png;base64," + "A" * 100),
    *({"type": "image_url", "image_url": 5}, -1, 0.5, "true", 9007199254740993),
)
KEYS = (
    *("step", "reward", "prompt", "response", "messages", "group", "loss_mask", "logprobs", "tokens"),
    *("rewards", "info", "metadata", "split", "uid", "id", "epoch", "turns", "trajectory", "advantages"),
    *("output", "input", "score", "index", "media", "images", "tools", "judge", "timing", "policy_version"),
)
#: Files that a run may have beside its logs, as JSON or TOML.
BESIDE = {
    "run.json": {
        "reward_weights": {"a": 1.0},
        "gamma": 1.0,
        "beta": 0.1,
        "epsilon": 0.2,
        "algorithm": "grpo",
    },
    "trainer_state.json": {"log_history": [{"step": 1, "loss": 0.5}, {"step": 2, "a": {"b": 1}}]},
    "scalars.jsonl": {"step": 1, "loss": 0.5, "a": {"b": 1}},
    "rlpanel.toml": {"map": {"prompt": "input"}, "reward_weights": {"a": 1.0}},
}


class Fuzzer:
    """Opens mutated logs.

    Parameters
    ----------
    seed : int
    folders : sequence of Path
        Folders with the logs.

    Attributes
    ----------
    places : Counter
        Number of files by error and place.
    """

    def __init__(self, seed: int, folders: Sequence[Path]) -> None:
        self._random = random.Random(seed)
        self._logs = [(folder, path) for folder in folders for path in sorted(_logs(folder))]
        self.places: Counter[str] = Counter()

    def run(self, files: int, folder: Path) -> None:
        """Open this many mutated files, one after the other, in an empty folder."""
        while files:
            shutil.rmtree(folder, ignore_errors=True)
            root, original = self._random.choice(self._logs)
            written = folder / Path(*original.relative_to(root).parts[-3:])
            written.parent.mkdir(parents=True)
            written.write_bytes(self._mutated_file(original))
            if self._random.random() < 0.2:
                self._write_beside(written.parent)
            files -= 1
            try:
                _open(folder)
            except Exception as error:
                self._note(error, written)

    def _mutated_file(self, original: Path) -> bytes:
        if original.suffix == ".parquet":
            return self._with_other_byte(original.read_bytes())
        if original.suffix == ".eval":
            whole = self._random.random() < 0.7
            return self._mutated_archive(original) if whole else self._with_other_byte(original.read_bytes())
        documents = _parse(original)
        if original.suffix == ".json":
            return _json(self._mutate(documents[0]))
        lines = [self._mutate(line) if self._random.random() < 0.6 else line for line in documents]
        return b"".join(_json(line) + b"\n" for line in lines)

    def _mutated_archive(self, original: Path) -> bytes:
        """Return a zip file of which a third of the members are mutated documents."""
        content = io.BytesIO()
        with (
            follow_file(str(original)) as file,
            zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for member in list_members(file, original.stat().st_size):
                data = read_member(file, member)
                mutated = self._random.random() < 0.3
                archive.writestr(member.name, _json(self._mutate(json.loads(data))) if mutated else data)
        return content.getvalue()

    def _with_other_byte(self, content: bytes) -> bytes:
        place = self._random.randrange(len(content))
        return content[:place] + bytes([self._random.randrange(256)]) + content[place + 1 :]

    def _write_beside(self, folder: Path) -> None:
        name = self._random.choice(sorted(BESIDE))
        text = _json(self._mutate(copy.deepcopy(BESIDE[name])))
        if name.endswith(".toml"):
            text = b"[map]\nprompt = " + text.replace(b":", b"=") + b"\n"
        (folder / name).write_bytes(text)

    def _mutate(self, document: Any) -> Any:
        """Return a document of which one to three values are replaced, removed or added."""
        for _ in range(self._random.randint(1, 3)):
            paths = [path for path in _paths(document) if path]
            if not paths:
                return self._value()
            *above, key = self._random.choice(paths)
            holder = document
            for part in above:
                holder = holder[part]
            chance = self._random.random()
            if chance < 0.75:
                holder[key] = self._value()
            elif chance < 0.85:
                del holder[key]
            elif isinstance(holder, dict):
                holder[self._random.choice(KEYS)] = self._value()
            else:
                holder.append(self._value())
        return document

    def _value(self) -> Any:
        return copy.deepcopy(self._random.choice(VALUES))

    def _note(self, error: Exception, written: Path) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/rlpanel/" in frame.filename] or frames
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in own[::-1][:5])
        self.places[f"{type(error).__name__} {str(error)[:150]!r} at {places}, {written.name}"] += 1


def _logs(folder: Path) -> Iterator[Path]:
    """Yield the files whose content can be mutated."""
    for path in folder.rglob("*"):
        if path.suffix in (".jsonl", ".json", ".parquet", ".eval") and path.stat().st_size < MAX_BYTES:
            try:
                _parse(path)
            except ValueError:
                continue
            yield path


def _parse(path: Path) -> list[Any]:
    """Return the first documents in a file; ValueError if they are not JSON."""
    content = path.read_bytes()
    if path.suffix in (".parquet", ".eval"):
        return []
    parts = (
        [line for line in content.splitlines() if line.strip()][:6] if path.suffix == ".jsonl" else [content]
    )
    return [json.loads(part) for part in parts]


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a document; of a list, of the first four items."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 4)):
            yield from _paths(value[index], (*path, index))


def _open(folder: Path) -> None:
    """Do with a run what a page does; an error of rlpanel's own kinds is an answer."""
    try:
        with rlpanel.open_run(folder, follow=False) as run:
            failed = [item.reason for item in run.snapshot.unread if item.file == "./"]
            if failed:
                raise AssertionError(failed[0])
            _ = run.errors
            if not run.snapshot.rows:
                return
            _ = run.samples(text=True), run.view.step_frame()
            found = run.findings
            rules = found.sentence[found.rule == FAILED].tolist() if len(found) else []
            if rules:
                raise AssertionError(rules[0])
            for uid in run.snapshot.uids(np.arange(min(run.snapshot.rows, 4))):
                pack_conversation(run.sample(uid))
    except RLPanelError:
        pass


if __name__ == "__main__":
    warnings.simplefilter("error")
    fuzzer = Fuzzer(int(sys.argv[1]), [Path(folder) for folder in sys.argv[3:]])
    with tempfile.TemporaryDirectory() as made:
        fuzzer.run(int(sys.argv[2]), Path(made) / "run")
    for place, count in fuzzer.places.most_common():
        print(count, place)
    print(f"{sys.argv[2]} files, {len(fuzzer.places)} places that fail")
