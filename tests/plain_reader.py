"""Reads the files of tests/data/public by plain code, without rlpanel, and writes their expected numbers.

``python -m tests.plain_reader`` writes ``tests/data/public/expected.json``. How each file is to be read was
decided by a person and stands in ``sources.json``, beside the file's source:

reader   How the file is opened: lines, json, csv, parquet, arrow, a table of W&B or pandas.
at       Dotted path of the samples in the document; ``*`` stands for every element.
reward, prompt, response, step, group, tokens
         Dotted paths in a sample. ``*`` makes one sample of each element; ``@`` is searched
         in the file's name.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

FOLDER = Path(__file__).parent / "data" / "public"
POLICY = ("assistant", "agent", "model", "ai", "gpt", "bot")
#: Longest text that is compared.
FRAGMENT = 48


def sources() -> dict[str, dict[str, Any]]:
    """Source of each folder of tests/data/public, and how it is to be read."""
    return json.loads((FOLDER / "sources.json").read_text(encoding="utf-8"))


def expected() -> dict[str, dict[str, Any]]:
    """Expected numbers of each folder, as they were written by `main`."""
    return json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def files_of(name: str, read: Mapping[str, Any]) -> list[Path]:
    """Files of a folder that hold its samples."""
    found = [path for path in sorted((FOLDER / name).glob(read.get("files", "**/*"))) if path.is_file()]
    assert found, name
    return found


def documents(path: Path, reader: str) -> list[Any]:
    """What a file holds: one document for each line, row, or file."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    data = zstandard.decompress(data) if path.suffix == ".zst" else data
    if reader == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    if reader == "arrow":
        import pyarrow.ipc

        return pyarrow.ipc.open_stream(data).read_all().to_pylist()
    if reader in ("csv", "tsv16"):
        text = data.decode("utf-16" if reader == "tsv16" else "utf-8")
        return list(csv.DictReader(io.StringIO(text), delimiter="\t" if reader == "tsv16" else ","))
    text = data.decode("utf-8")
    if reader == "lines":
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    document = json.loads(text)
    if reader in ("split", "table"):
        return [dict(zip(document["columns"], row, strict=True)) for row in document["data"]]
    if reader == "columns":
        keys = list(document)
        return [
            dict(zip(keys, row, strict=True))
            for row in zip(*(document[key].values() for key in keys), strict=True)
        ]
    return [document]


def walk(value: Any, path: str) -> Iterator[Any]:
    """Yield what a dotted path leads to."""
    first, _, rest = path.partition(".")
    if first == "":
        yield value
    elif first == "*":
        for item in value.values() if isinstance(value, dict) else value:
            yield from walk(item, rest)
    elif isinstance(value, list):
        if first.isdigit() and int(first) < len(value):
            yield from walk(value[int(first)], rest)
    elif isinstance(value, dict) and first in value:
        yield from walk(value[first], rest)


def records(name: str, read: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Records of a folder before lists of samples are taken apart, each with its file's name."""
    found = []
    for path in files_of(name, read):
        content = documents(path, read["reader"])
        relative = path.relative_to(FOLDER / name).as_posix()
        if read.get("whole"):
            found.append((relative, content))
            continue
        for document in content:
            found += [(relative, record) for record in walk(document, read.get("at", "").strip("."))]
    return found


def samples(name: str, read: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the samples of a folder as plain values."""
    for file, record in records(name, read):
        yield from samples_of(record, read, file)


def samples_of(record: Any, read: Mapping[str, Any], file: str = "") -> Iterator[dict[str, Any]]:
    """Yield the samples of a record: several if it holds lists of them."""
    repeats = [key for key in ("reward", "response", "prompt") if "*" in read.get(key, "")]
    count = len(list(walk(record, read[repeats[0]]))) if repeats else 1
    for number in range(count):
        yield _sample(record, file, number, read)


def _sample(record: Any, file: str, number: int, read: Mapping[str, Any]) -> dict[str, Any]:
    def one(key: str) -> Any:
        path = read.get(key)
        if path is None:
            return None
        if path.startswith("@"):
            match = re.search(path[1:], file)
            return int(match[1]) if match else None
        found = list(walk(record, "" if path == "." else path))
        return found[number if "*" in path else 0] if found else None

    prompt, response = one("prompt"), one("response")
    values = read.get("values")
    reward = one("reward")
    sample = {
        "step": one("step"),
        "reward": values[reward] if values else _number(reward),
        "group": one("group"),
        "tokens": None if one("tokens") is None else len(one("tokens")),
        "turns": None,
        "calls": None,
    }
    same = read.get("prompt") == read.get("response")
    if is_messages(response):
        start = next(at for at, message in enumerate(response) if message.get("role") in POLICY)
        said = [message for message in response if message.get("role") in POLICY]
        sample["turns"] = len(said)
        sample["calls"] = sum(len(message.get("tool_calls") or ()) for message in said)
        sample["prompt"] = _last_text(response[:start]) if same else _last_text(prompt)
        sample["response"] = next((text for message in said if (text := text_of(message))), "")
    else:
        sample["prompt"] = _last_text(prompt) if is_messages(prompt) else _plain(prompt)
        sample["response"] = _plain(one("response_text") if response is None else response)
    return sample


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages with roles."""
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "role" in m for m in value)


def text_of(message: Mapping[str, Any]) -> str:
    """Text of a message, also of one in blocks."""
    content = message.get("content")
    if isinstance(content, list):
        return next((block["text"] for block in content if block.get("text")), "")
    return content or ""


def _last_text(messages: Sequence[Mapping[str, Any]]) -> str:
    others = [message for message in messages if message["role"] != "reasoning"]
    return next((text for message in reversed(others) if (text := text_of(message))), "")


def _plain(value: Any) -> str:
    """Return a text; of an object its longest text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return max((_plain(item) for item in value.values()), key=len, default="")
    return ""


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        return {"True": 1.0, "False": 0.0}.get(value) if value in ("True", "False") else float(value)
    return float(value)


def fragment(text: str, other: str = "") -> str:
    """Return the end of a text's longest line that is not in another text; what was read must have it."""
    ends = [line.strip()[-FRAGMENT:] for line in sorted(text.split("\n"), key=len, reverse=True)]
    return next((end for end in ends if end not in other), "") if other else ends[0]


def numbers(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of some samples: rows, steps, rewards, groups, turns, calls, tokens, and texts."""
    rewards = defaultdict(list)
    for sample in found:
        if sample["reward"] is not None:
            rewards["*" if sample["step"] is None else str(int(sample["step"]))].append(sample["reward"])

    def total(key: str) -> int | None:
        given = [sample[key] for sample in found if sample[key] is not None]
        return sum(given) if given else None

    groups = {
        (sample["step"], json.dumps(sample["group"])) for sample in found if sample["group"] is not None
    }
    return {
        "rows": len(found),
        "steps": sorted({int(sample["step"]) for sample in found if sample["step"] is not None}),
        "reward": {step: round(sum(values) / len(values), 9) for step, values in rewards.items()},
        "groups": len(groups) or None,
        "turns": total("turns"),
        "tool_calls": total("calls"),
        "tokens": total("tokens"),
        "texts": [[fragment(s["prompt"]), fragment(s["response"], s["prompt"])] for s in found],
    }


def main() -> None:
    """Write the expected numbers of all folders."""
    written = {name: numbers(list(samples(name, source["read"]))) for name, source in sources().items()}
    lines = [f" {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in written.items()]
    (FOLDER / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
