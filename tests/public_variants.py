"""Derives variants of the public files: other names of keys, other shapes of values, other containers.

Each variant is a folder with the numbers that its files hold. The names of keys are those that public
projects use; they were listed without looking at the names that rlpanel knows.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from tests.plain_reader import (
    FOLDER,
    files_of,
    is_messages,
    numbers,
    records,
    samples_of,
    sources,
    text_of,
)

TOTAL = 2000
Record = dict[str, Any]
Files = dict[str, bytes]

#: Names that projects give to a field.
NAMES: dict[str, tuple[str, ...]] = {
    "prompt": (
        *("prompt", "input", "question", "query", "problem", "instruction", "prompt_text", "user_prompt"),
        *("input_text", "full_prompt", "user_input", "problem_statement", "task_description", "prompt_str"),
    ),
    "response": (
        *("response", "completion", "output", "generation", "generated_text", "model_output", "prediction"),
        *("model_response", "llm_response", "output_text", "raw_response", "assistant_response", "generated"),
        *("response_text", "model_completion", "full_response", "response_str", "raw_output"),
    ),
    "messages": (
        *("messages", "conversation", "conversations", "trajectory", "history", "chat", "dialogue", "turns"),
        *("chat_history", "transcript", "message_log"),
    ),
    "reward": (
        *("reward", "score", "total_reward", "final_reward", "is_correct", "correct", "passed", "accuracy"),
        *("acc", "episode_reward", "rm_score", "success", "resolved", "reward_score", "correctness", "grade"),
        *("eval_score", "outcome_reward", "exact_match", "episode_return", "judge_score", "task_reward"),
    ),
    "step": (
        *("step", "global_step", "iteration", "train_step", "training_step", "rl_step", "global_steps"),
        *("iter", "update_step", "trainer_step", "optimizer_step"),
    ),
    "group": ("group_id", "prompt_id", "problem_id", "task_id", "question_id", "example_id", "instance_id"),
}
#: Documents in the format of one program, whose keys nobody renames.
FIXED = (
    *(
        "atropos-rubiks",
        "swe-agent-history",
        "swe-agent-traj",
        "mini-swe-local",
        "mini-swe-writer",
        "tau-bench",
    ),
    *("tau2-bench", "rolloutviz-letta", "rolloutviz-atif", "rolloutviz-inspect", "circuit-sim-atif"),
    *("codex-vault", "nemo-gym-gpqa", "evalplus-results", "opencompass-predictions", "evalscope-reviews"),
    *("vendor-verifier", "bfcl-result", "letta-evals"),
)


@dataclass(frozen=True)
class Variant:
    """A derived folder: how it was made, its files and its numbers."""

    source: str
    keys: str
    container: str
    files: Files = field(repr=False)
    expected: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}, {self.keys}, {self.container}"

    def write(self, folder: Path) -> Path:
        """Write the files into an empty folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder


@dataclass
class Case:
    """The records of a public file, with what is known of their keys."""

    name: str
    read: dict[str, Any]
    records: list[Record]
    stem: str
    #: Sets the step of record number N of M, where the container gives it.
    step_of: Callable[[int], int] | None = None


def chance(*parts: object) -> int:
    """Return a number that depends on the parts only."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16)


def variants(total: int = TOTAL) -> list[Variant]:
    """Return the variants, the same each time: as many of each public file as it allows."""
    queues = [_planned(name, source["read"]) for name, source in sources().items()]
    chosen: list[Variant] = []
    while len(chosen) < total and queues:
        for queue in list(queues):
            variant = next(queue, None)
            if variant is None:
                queues.remove(queue)
            elif len(chosen) < total:
                chosen.append(variant)
    return chosen


def _planned(name: str, read: dict[str, Any]) -> Iterator[Variant]:
    """Yield the variants of a folder: one change at a time in turn, then two."""
    files = files_of(name, read)
    if read.get("at") in (".", "") or read.get("whole"):
        yield from _of_bytes(name, read, files)
        return
    found = [record for _, record in records(name, read)]
    stem = files[0].name.partition(".")[0]

    def order(kind: Mapping[str, Any], salt: str) -> list[str]:
        return sorted(kind, key=lambda each: chance(name, salt, each))

    keys = ["same"] if name in FIXED else order(KEYS, "keys")
    containers = order(CONTAINERS, "containers")
    pairs = [(keys[at % len(keys)], containers[at % len(containers)]) for at in range(len(containers))]
    singles = [("same", container) for container in containers]
    renamed = [(key, "lines") for key in keys if key != "same"]
    queues = [iter(singles), iter(renamed), iter(pairs), iter(pairs[7:] + pairs[:7])]
    seen = {("same", "lines")}
    while queues:
        for queue in list(queues):
            pair = next(queue, None)
            if pair is None:
                queues.remove(queue)
            elif pair not in seen:
                seen.add(pair)
                copied = json.loads(json.dumps(found, default=str))
                made = _made(Case(name, dict(read), copied, stem), *pair)
                if made is not None:
                    yield made


def _made(case: Case, keys: str, container: str) -> Variant | None:
    try:
        KEYS[keys](case)
        files = CONTAINERS[container](case)
    except NotApplicable:
        return None
    found = []
    for at, record in enumerate(case.records):
        for sample in samples_of(record, case.read, ""):
            found.append(sample if case.step_of is None else sample | {"step": case.step_of(at)})
    expected = numbers(found)
    if case.step_of is not None:
        expected["groups"] = None
    return Variant(case.name, keys, container, files, expected)


class NotApplicable(Exception):
    """Raised where a file has no such key or shape."""


# Keys and values.


def _key(case: Case, meaning: str) -> str:
    path = case.read.get(meaning)
    if path is None or path.startswith("@"):
        raise NotApplicable
    return path


def _top(case: Case, meaning: str) -> str:
    """Return the key of a meaning that lies right in the record."""
    path = _key(case, meaning)
    if "." in path:
        raise NotApplicable
    return path


def _renamed(case: Case, meaning: str, new: str) -> None:
    """Rename the first key of the meaning's path in each record, and in all paths that begin with it."""
    old = _key(case, meaning).partition(".")[0]
    if any(new in record and new != old for record in case.records):
        raise NotApplicable
    case.records = [{new if key == old else key: value for key, value in r.items()} for r in case.records]
    for each, path in case.read.items():
        if each in (*NAMES, "tokens", "response_text") and str(path).partition(".")[0] == old:
            case.read[each] = new + path[len(old) :]


def _has_messages(case: Case) -> bool:
    path = case.read.get("response", "")
    return path in case.records[0] and is_messages(case.records[0][path])


def _rename(meaning: str) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        whole = meaning == "response" and _has_messages(case) and case.read["prompt"] == case.read["response"]
        names = NAMES["messages" if whole else meaning]
        _renamed(case, meaning, names[chance(case.name, meaning) % len(names)])

    return change


def _rename_all(case: Case) -> None:
    changed = 0
    for meaning in ("prompt", "response", "reward", "step", "group"):
        try:
            _rename(meaning)(case)
            changed += 1
        except NotApplicable:
            continue
    if changed < 2:
        raise NotApplicable


def _spelled(style: Callable[[str], str]) -> Callable[[Case], None]:
    """Spell the keys of the record in another style, such as camelCase."""

    def change(case: Case) -> None:
        old = [key for key in case.records[0] if style(key) != key]
        if not old:
            raise NotApplicable
        case.records = [{style(key): value for key, value in record.items()} for record in case.records]
        for each, path in case.read.items():
            if each in (*NAMES, "tokens", "response_text") and not str(path).startswith("@"):
                first, dot, rest = str(path).partition(".")
                case.read[each] = style(first) + dot + rest

    return change


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(part.title() for part in rest)


def _title(key: str) -> str:
    return key.replace("_", " ").title()


def _nested(case: Case) -> None:
    """Put the record one level deeper, as exporters do."""
    name = ("attributes", "sample", "rollout", "data", "item")[chance(case.name, "nest") % 5]
    case.records = [{"record_id": at, name: record} for at, record in enumerate(case.records)]
    for each, path in case.read.items():
        if each in (*NAMES, "tokens", "response_text") and not str(path).startswith("@"):
            case.read[each] = f"{name}.{path}"


def _foreign(case: Case) -> None:
    """Add keys of other programs that have a name of rlpanel's."""
    other = {
        "timing": {"generation": {"duration": 1.5}, "total": 2.0},
        "judge": {"model": "m", "verdict": "ok"},
        "logprobs": [],
        "values": None,
        "metadata": {"seed": 1, "source": "shop"},
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    case.records = [{key: v for key, v in other.items() if key not in r} | r for r in case.records]


def _reversed(case: Case) -> None:
    case.records = [dict(reversed(record.items())) for record in case.records]


def _reward_as(shape: Callable[[float], Any], rest: str = "") -> Callable[[Case], None]:
    def change(case: Case) -> None:
        key = _top(case, "reward")
        for record in case.records:
            if record[key] is None:
                raise NotApplicable
            record[key] = shape(float({"True": 1, "False": 0}.get(record[key], record[key])))
        case.read["reward"] = key + rest

    return change


def _as_bool(value: float) -> bool:
    if value not in (0.0, 1.0):
        raise NotApplicable
    return bool(value)


def _step_as_text(case: Case) -> None:
    key = _top(case, "step")
    case.records = [record | {key: str(record[key])} for record in case.records]


def _without_step(case: Case) -> None:
    key = _top(case, "step")
    case.records = [{k: v for k, v in record.items() if k != key} for record in case.records]
    del case.read["step"]


def _every_message(case: Case, change: Callable[[Record], Record]) -> None:
    paths = {case.read.get("response", ""), case.read.get("prompt", "")} - {""}
    if not _has_messages(case):
        raise NotApplicable
    for record in case.records:
        for path in paths:
            if is_messages(record.get(path)):
                record[path] = [change(dict(message)) for message in record[path]]


def _roles(case: Case) -> None:
    """Call the policy and the others what LangChain, Gemini and others call them."""
    names = ({"assistant": "ai", "user": "human"}, {"assistant": "model"}, {"assistant": "agent"})
    other = names[chance(case.name, "roles") % 3]
    _every_message(case, lambda m: m | {"role": other.get(m["role"], m["role"])})


def _blocks(case: Case) -> None:
    _every_message(
        case, lambda m: m | {"content": [{"type": "text", "text": text_of(m)}]} if text_of(m) else m
    )


def _messages_as_json(case: Case) -> None:
    """Write lists of messages as JSON texts, as parquet exporters do; the numbers are those of the lists."""
    if not _has_messages(case):
        raise NotApplicable
    case.read["as_json"] = True


def _sharegpt(case: Case) -> None:
    """Write one conversation of ``from`` and ``value``."""
    _one_conversation(case)
    case.read["sharegpt"] = True
    _renamed(case, "response", "conversations")


def _one_conversation(case: Case) -> None:
    """Join prompt and response to one list of messages."""
    prompt, response = _top(case, "prompt"), _top(case, "response")
    if prompt == response or any("messages" in record for record in case.records):
        raise NotApplicable
    joined = []
    for record in case.records:
        first, then = record.pop(prompt), record.pop(response)
        if not isinstance(first, str | list) or not isinstance(then, str | list):
            raise NotApplicable
        first = first if isinstance(first, list) else [{"role": "user", "content": first}]
        then = then if isinstance(then, list) else [{"role": "assistant", "content": then}]
        if any(message.get("tool_calls") for message in then):
            raise NotApplicable
        joined.append(record | {"messages": first + then})
    case.records = joined
    case.read |= {"prompt": "messages", "response": "messages"}


def _prompt_as_messages(case: Case) -> None:
    key = _top(case, "prompt")
    if (
        not all(isinstance(record.get(key), str) for record in case.records)
        or case.read.get("response") == key
    ):
        raise NotApplicable
    for record in case.records:
        record[key] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": record[key]}]


KEYS: dict[str, Callable[[Case], None]] = {
    "same": lambda case: None,
    "prompt renamed": _rename("prompt"),
    "response renamed": _rename("response"),
    "reward renamed": _rename("reward"),
    "step renamed": _rename("step"),
    "group renamed": _rename("group"),
    "all renamed": _rename_all,
    "camelCase": _spelled(_camel),
    "Title Case": _spelled(_title),
    "nested": _nested,
    "foreign keys": _foreign,
    "keys reversed": _reversed,
    "reward as text": _reward_as(str),
    "reward as true, false": _reward_as(_as_bool),
    "reward in an object": _reward_as(lambda value: {"score": value, "weight": 1.0}, ".score"),
    "reward in a list": _reward_as(lambda value: [value], ".0"),
    "step as text": _step_as_text,
    "no step": _without_step,
    "other roles": _roles,
    "content in blocks": _blocks,
    "messages as JSON text": _messages_as_json,
    "one conversation": _one_conversation,
    "ShareGPT": _sharegpt,
    "prompt as messages": _prompt_as_messages,
}


# Containers.


def _written(case: Case) -> list[Record]:
    """Return the records as they are written: conversations as JSON text or in ShareGPT's keys."""
    if not (case.read.get("as_json") or case.read.get("sharegpt")):
        return case.records
    who = {"user": "human", "assistant": "gpt"}
    found = []
    for record in case.records:
        made = dict(record)
        for path in {case.read["prompt"], case.read["response"]}:
            value = made.get(path)
            if is_messages(value) and case.read.get("sharegpt"):
                made[path] = [{"from": who.get(m["role"], m["role"]), "value": text_of(m)} for m in value]
            elif is_messages(value):
                made[path] = json.dumps(value, ensure_ascii=False)
        found.append(made)
    return found


def _lines(found: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in found)


def _file(suffix: str, write: Callable[[list[Record]], bytes]) -> Callable[[Case], Files]:
    return lambda case: {case.stem + suffix: write(_written(case))}


def _array(indent: int | None = None) -> Callable[[list[Record]], bytes]:
    return lambda found: json.dumps(found, ensure_ascii=False, indent=indent).encode()


def _wrapped(key: str) -> Callable[[list[Record]], bytes]:
    def write(found: list[Record]) -> bytes:
        about = {"metadata": {"model": "m", "date": "2026-07-01"}, "num_samples": len(found)}
        return json.dumps(about | {key: found}, ensure_ascii=False, indent=2).encode()

    return write


def _by_index(found: list[Record]) -> bytes:
    return json.dumps({str(at): record for at, record in enumerate(found)}, indent=1).encode()


def _rows(found: list[Record]) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows; a record with other values than texts and numbers has no row."""
    columns = list(found[0])
    if any(list(record) != columns for record in found):
        raise NotApplicable
    if any(isinstance(value, list | dict) for record in found for value in record.values()):
        raise NotApplicable
    return columns, [list(record.values()) for record in found]


def _table(found: list[Record]) -> bytes:
    columns, rows = _rows(found)
    return json.dumps({"columns": columns, "data": rows}, ensure_ascii=False).encode()


def _csv(separator: str) -> Callable[[list[Record]], bytes]:
    def write(found: list[Record]) -> bytes:
        columns, rows = _rows(found)
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=separator).writerows([columns, *rows])
        return buffer.getvalue().encode()

    return write


def _arrow_table(found: list[Record]) -> Any:
    import pyarrow

    try:
        return pyarrow.Table.from_pylist(found)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise NotApplicable from error


def _parquet(found: list[Record]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    try:
        pyarrow.parquet.write_table(_arrow_table(found), buffer)
    except pyarrow.ArrowNotImplementedError as error:
        raise NotApplicable from error
    return buffer.getvalue()


def _arrow(found: list[Record]) -> bytes:
    import pyarrow.ipc

    table, buffer = _arrow_table(found), io.BytesIO()
    with pyarrow.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _separate(case: Case) -> Files:
    return {f"{case.stem}_{at:03}.json": _array(2)(r) for at, r in enumerate(_written(case))}  # type: ignore[arg-type]


def _halves(first: str, second: str) -> Callable[[Case], Files]:
    def write(case: Case) -> Files:
        found = _written(case)
        if len(found) < 2:
            raise NotApplicable
        at = len(found) // 2
        return {
            first.format(case.stem): _lines(found[:at]),
            second.format(case.stem): _lines(found[at:]),
        }

    return write


def _steps(name: str) -> Callable[[Case], Files]:
    """Give the step by the name of folder or file only."""

    def write(case: Case) -> Files:
        found = _written(case)
        if "step" in case.read or len(found) < 2:
            raise NotApplicable
        at = len(found) // 2
        case.step_of = lambda number: 10 if number < at else 20
        return {
            name.format(10, stem=case.stem): _lines(found[:at]),
            name.format(20, stem=case.stem): _lines(found[at:]),
        }

    return write


def _beside(case: Case) -> Files:
    """Put the file beside others that are no rollouts."""
    return {
        f"{case.stem}.jsonl": _lines(_written(case)),
        "config.json": b'{"model": "m", "learning_rate": 1e-6, "steps": 100}',
        "README.md": b"# Results\n",
        "metrics.csv": b"step,loss\n1,0.5\n2,0.4\n",
        "tokenizer_config.json": b'{"model_max_length": 4096, "added_tokens_decoder": {}}',
    }


CONTAINERS: dict[str, Callable[[Case], Files]] = {
    "lines": _file(".jsonl", _lines),
    "lines in .json": _file(".json", _lines),
    "ndjson": _file(".ndjson", _lines),
    "array": _file(".json", _array()),
    "indented array": _file(".json", _array(2)),
    "array in .jsonl": _file(".jsonl", _array()),
    **{
        f"array below {key}": _file(".json", _wrapped(key))
        for key in ("samples", "results", "data", "rollouts")
    },
    **{
        f"array below {key}": _file(".json", _wrapped(key)) for key in ("trajectories", "outputs", "episodes")
    },
    "object by index": _file(".json", _by_index),
    "lines, gzip": _file(".jsonl.gz", lambda found: gzip.compress(_lines(found), mtime=0)),
    "array, gzip": _file(".json.gz", lambda found: gzip.compress(_array()(found), mtime=0)),
    "lines, zstd": _file(".jsonl.zst", lambda found: zstandard.compress(_lines(found))),
    "UTF-16": _file(".jsonl", lambda found: _lines(found).decode().encode("utf-16")),
    "byte order mark": _file(".jsonl", lambda found: b"\xef\xbb\xbf" + _lines(found)),
    "CRLF": _file(".jsonl", lambda found: _lines(found).replace(b"\n", b"\r\n")),
    "no last newline": _file(".jsonl", lambda found: _lines(found).rstrip(b"\n")),
    "blank lines": _file(".jsonl", lambda found: _lines(found).replace(b"\n", b"\n\n")),
    "indented documents": _file(".jsonl", lambda found: b"\n".join(_array(2)(r) for r in found)),  # type: ignore[arg-type]
    "parquet": _file(".parquet", _parquet),
    "arrow": _file(".arrow", _arrow),
    "csv": _file(".csv", _csv(",")),
    "tsv": _file(".tsv", _csv("\t")),
    "table of W&B": _file(".table.json", _table),
    "one file each": _separate,
    "two ranks": _halves("{0}_rank_0.jsonl", "{0}_rank_1.jsonl"),
    "rank folders": _halves("rank_0/{0}.jsonl", "rank_1/{0}.jsonl"),
    "two shards": _halves("{0}-00000-of-00002.jsonl", "{0}-00001-of-00002.jsonl"),
    "deeper": lambda case: {f"outputs/run/{case.stem}.jsonl": _lines(_written(case))},
    "step folders": _steps("step_{0}/{stem}.jsonl"),
    "global_step folders": _steps("global_step_{0}/{stem}.jsonl"),
    "checkpoint folders": _steps("checkpoint-{0}/{stem}.jsonl"),
    "iteration folders": _steps("iter_{0:06}/{stem}.jsonl"),
    "step in the file's name": _steps("{stem}_step_{0}.jsonl"),
    "step as the file's name": _steps("rollouts/{0}.jsonl"),
    "beside others": _beside,
}


def _of_bytes(name: str, read: dict[str, Any], files: Sequence[Path]) -> Iterator[Variant]:
    """Yield variants of documents that hold one sample each, whose content stays."""
    found = [s for _, r in records(name, read) for s in samples_of(r, read)]
    content = {path.relative_to(FOLDER / name).as_posix(): path.read_bytes() for path in files}
    packed = all(key.endswith(".gz") for key in content)
    plain = {key.removesuffix(".gz"): gzip.decompress(v) if packed else v for key, v in content.items()}
    changes: dict[str, Files] = {
        "gzip": {f"{key}.gz": gzip.compress(v, mtime=0) for key, v in plain.items()},
        "deeper": {f"outputs/run/{key}": v for key, v in content.items()},
        "byte order mark": {key: b"\xef\xbb\xbf" + v for key, v in plain.items()},
        "CRLF": {key: v.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for key, v in plain.items()},
        "UTF-16": {key: v.decode().encode("utf-16") for key, v in plain.items()},
        "beside others": content | {"config.json": b'{"model": "m"}', "README.md": b"# Runs\n"},
    }
    if not read.get("whole"):
        changes["compact"] = {key: json.dumps(json.loads(v)).encode() for key, v in plain.items()}
        changes["as lines"] = {
            f"{key.removesuffix('.json').removesuffix('.traj')}.jsonl": json.dumps(json.loads(v)).encode()
            + b"\n"
            for key, v in plain.items()
        }
    for change, made in changes.items():
        yield Variant(name, "same", change, made, numbers(found))
