"""Process that reads the pickles of one rollout, joins its samples, and writes native lines."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlpanel.errors import RLPanelError
from rlpanel.regular_files import open_regular
from rlpanel.slime_samples import array_fields, sample_rows
from rlpanel.sources.pickles.plain_unpickler import EmptyObject, PlainArray, read_torch

# -- slime rows ----------------------------------------------------------------------------------------
# Joins the samples of a slime or miles rollout with what training computed, and with their conversations.
#
# slime's ``train_data/{id}.pt`` names the sample's ``rollout_position``. miles writes columns of one rank in
# ``train_data/{id}_{rank}.pt`` (``save_debug_train_data_for_rank``), with ``sample_indices``; the lines of
# ``trajectory/{id}.jsonl`` have the same index.


#: Names of the files of a rollout: ``{id}.pt``, or ``eval_{id}.pt``.
DUMP_NAME = re.compile(r"(eval_)?(\d+)\.pt")


def trained_samples(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what training computed for each sample: slime's list, or the columns of one rank of miles.

    A part of a sequence under context parallelism is left out: it has fewer values than the response.
    """
    if isinstance(dump.get("samples"), list):
        return list(dump["samples"])
    columns = dump.get("rollout_data")
    if not isinstance(columns, dict) or int(dump.get("cp_size") or 1) > 1:
        return []
    indices: Any = columns.get("sample_indices")
    indices = indices.tolist() if hasattr(indices, "tolist") else indices
    if not isinstance(indices, (list, tuple)):
        return []
    per_sample = {
        key: values
        for key, values in columns.items()
        if isinstance(values, (list, tuple)) and len(values) == len(indices)
    }
    return [
        {"sample_index": index} | {key: values[at] for key, values in per_sample.items()}
        for at, index in enumerate(indices)
    ]


def rows(
    rollout: Mapping[str, Any],
    trained: Mapping[str, Any],
    name: str,
    conversations: Mapping[Any, Mapping[str, Any]] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Yield the native lines of a rollout.

    Parameters
    ----------
    rollout, trained : mapping
        Contents of the two files; ``trained`` is empty if the samples were not trained on yet.
    name : str
        The file's name, which gives the step and the split.
    conversations : mapping, optional
        Lines of miles' conversations by the sample's index.
    """
    match = DUMP_NAME.fullmatch(name)
    number = int(match[2]) if match else rollout.get("rollout_id")
    by_position = {sample.get("rollout_position"): sample for sample in trained.get("samples", [])}
    by_index = {sample.get("sample_index"): sample for sample in trained.get("samples", [])}
    samples = rollout["samples"]
    for position, (sample, fields) in enumerate(zip(samples, sample_rows(samples), strict=True)):
        row = {"step": rollout.get("rollout_id", number)} | fields
        index = sample.get("index")
        computed = by_position.get(position) or (by_index.get(index) if index is not None else None) or {}
        row |= array_fields(computed, int(sample.get("response_length") or 0))
        row |= _conversation(conversations.get(index))
        if match and match[1]:
            row["split"] = "eval"
        yield row


def _conversation(line: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the messages of a sample, divided after the logged prompt if they begin with it."""
    if line is None:
        return {}
    messages, prompt = line["messages"], line.get("prompt")
    if not isinstance(prompt, list) or prompt != messages[: len(prompt)]:
        return {"messages": messages}
    return {"messages": messages, "prompt_messages": len(prompt)}


# -- dump worker ---------------------------------------------------------------------------------------
# Process that reads the pickles of one rollout and writes its native lines: a program without rights.
#
# It writes no file, has limits of memory and time, and gives its lines to the process that began it: first a
# line with counts, then the lines of the samples. `rlpanel.sources.slime_convert` begins it.


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: Bytes of memory, and of lines, beside a multiple of the files' size.
_MIN_MEMORY, _PER_BYTE = 1 << 30, 16
_MIN_LINES, _LINES_PER_BYTE = 2 << 20, 32
#: Seconds of computing, and bytes of the files for which there is one more.
_SECONDS, _BYTES_PER_SECOND = 60, 1 << 20


class TooMuch(RLPanelError):
    """The lines are much larger than the files that they come from."""


def main() -> None:
    """Read a request from the input, and write the lines, or what is wrong in one line."""
    request = json.load(sys.stdin)
    out = sys.stdout.buffer
    try:
        names = [request["rollout"], *request["trained"], *request["talks"]]
        files = {name: open(open_regular(name), "rb") for name in names}  # noqa: SIM115  closed at the end
        size = sum(os.fstat(file.fileno()).st_size for file in files.values())
        _confine(size)
        head, lines = _converted(request, files, _MIN_LINES + _LINES_PER_BYTE * size)
        out.write(json.dumps(head).encode() + b"\n" + lines)
    except MemoryError:
        out.write(json.dumps({"error": "it needs more memory than its size allows"}).encode() + b"\n")
    except (RLPanelError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        text = str(error) if isinstance(error, RLPanelError) else f"{type(error).__name__}: {error}"
        out.write(json.dumps({"error": " ".join(text.split())[:300]}).encode() + b"\n")
    out.flush()


def _confine(size: int) -> None:
    """Let this process write no file, and use memory and time by the size of what it reads."""
    if resource is None:
        return
    seconds = _SECONDS + size // _BYTES_PER_SECOND
    limits = {
        resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0, resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CPU: seconds, resource.RLIMIT_DATA: _MIN_MEMORY + _PER_BYTE * size,
    }  # fmt: skip
    for what, wanted in limits.items():
        _, most = resource.getrlimit(what)
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(what, (wanted, wanted))


def _converted(
    request: Mapping[str, Any], files: Mapping[str, io.BufferedReader], most: int
) -> tuple[dict[str, Any], bytes]:
    """Return the counts and the lines of a rollout."""
    left_out: Counter[str] = Counter()

    def load(name: str) -> dict[str, Any]:
        try:
            dump, gone = read_torch(files[name])
        except RLPanelError as error:
            raise RLPanelError(f"{Path(name).name} cannot be read: {error}") from error
        left_out.update(gone)
        if not isinstance(dump, dict):
            raise RLPanelError(f"{Path(name).name} holds no object; is it a dump of slime or miles?")
        return dump

    rollout = load(request["rollout"])
    samples = rollout.get("samples")
    if not isinstance(samples, list) or not all(isinstance(each, dict) for each in samples):
        raise RLPanelError(
            f"{Path(request['rollout']).name} has no list of samples; is it a dump of slime or miles?"
        )
    trained = {"samples": [each for name in request["trained"] for each in trained_samples(load(name))]}
    talks = {}
    for name in request["talks"]:
        talks |= conversations(files[name].read().decode())
    lines, count, without, alone = io.BytesIO(), 0, 0, 0
    for row in rows(rollout, trained, Path(request["rollout"]).name, talks):
        row = {key: value for key, value in row.items() if not isinstance(value, (EmptyObject, type))}
        _check_size(row, most - lines.tell())
        lines.write(json.dumps(row, ensure_ascii=False, default=_plain).encode("utf-8", "replace") + b"\n")
        count, without = count + 1, without + (bool(trained["samples"]) and "logprobs" not in row)
        alone += bool(talks) and "messages" not in row
    head = {
        "samples": count,
        "left_out": dict(left_out.most_common(20)),
        "untrained": without,
        "alone": alone,
    }
    return head, lines.getvalue()


def _check_size(value: Any, most: int) -> None:
    """Raise TooMuch if a value has more items than fit in a number of bytes.

    A pickle may hold a list ten times in a list that is ten times in another one: few bytes become many.
    """
    left, rest = most // 2, [value]
    while rest:
        each = rest.pop()
        items = each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else ()
        left -= each.values.size if isinstance(each, PlainArray) else len(items)
        if left < 0:
            raise TooMuch("its samples are much larger than the file")
        rest.extend(item for item in items if isinstance(item, (list, tuple, dict, PlainArray)))


def conversations(text: str) -> dict[Any, dict[str, Any]]:
    """Return the lines of miles' conversations by the sample's index."""
    found = (json.loads(line) for line in text.splitlines() if line.strip())
    return {line["sample_index"]: line for line in found if isinstance(line.get("messages"), list)}


def _plain(value: Any) -> Any:
    """Return what JSON writes for a value: an array's list, a text of bytes, null for other objects."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None
