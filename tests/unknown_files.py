"""Ten files in no known format, with what a person would say that their keys mean."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

Make = Callable[[int], dict[str, Any]]
COUNT = 12


class Unknown(NamedTuple):
    """What makes the lines of a file, and the keys that a person corrects after the inference."""

    make: Make
    keys: dict[str, str | int]


_TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
FILES = {
    "plain.jsonl": Unknown(
        lambda at: {"question": f"q{at}", "completion": f"a{at}", "passed": at % 2 == 0}, {}
    ),
    "nested.jsonl": Unknown(
        lambda at: {"task": {"q": f"q{at}"}, "out": {"text": f"a{at}"}, "result": {"score": at / 12}},
        {"prompt": "task.q", "response": "out.text"},
    ),
    "dialogue.jsonl": Unknown(lambda at: {"talk": _TALK, "at": at}, {"messages": "talk"}),
    "epochs.jsonl": Unknown(
        lambda at: {"query": "q", "answer_text": f"a{at}", "acc": 1, "epoch": at // 4}, {}
    ),
    "unnamed.jsonl": Unknown(
        lambda at: {"a": f"first {at}", "b": f"second {at}", "c": at % 3},
        {"prompt": "a", "response": "b", "reward": "c", "step": 7},
    ),
    "misspelt.jsonl": Unknown(
        lambda at: {"quest": f"q{at}", "outp": f"a{at}"}, {"prompt": "quest", "response": "outp"}
    ),
    "spaces.jsonl": Unknown(
        lambda at: {"the question": f"q{at}", "the answer": f"a{at}"},
        {"prompt": "the question", "response": "the answer"},
    ),
    "columns.parquet": Unknown(
        lambda at: {"instruction": f"q{at}", "generation": f"a{at}", "rating": at / 3}, {}
    ),
    "packed.jsonl.gz": Unknown(
        lambda at: {"problem": f"q{at}", "solution_text": f"a{at}", "iter": at},
        {"prompt": "problem", "response": "solution_text"},
    ),
    "chinese.jsonl": Unknown(
        lambda at: {"问题": f"问{at}", "回答": f"答{at}"}, {"prompt": "问题", "response": "回答"}
    ),
}


def write_unknown(folder: Path, name: str) -> None:
    """Write one of the files into a folder."""
    records = [FILES[name].make(at) for at in range(COUNT)]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(records), folder / name)
    else:
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
