"""Formats of a file's records: an adapter's, a mapping's, an inferred one, or one that almost fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.sources.adapters import ADAPTERS, NATIVE, TRL
from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.discovery.file_format import (
    NAMED,
    NO_STATUS,
    FileFormat,
    has_reward,
    parsed,
    records_of,
)
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import fields_of
from rlpanel.sources.inference.infer import infer, infer_document
from rlpanel.sources.inference.inference import UNSURE, Inference
from rlpanel.sources.readers.containers import DOCUMENT, Content
from rlpanel.sources.records.adapter_calls import accepts
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.path_numbers import said_step
from rlpanel.sources.records.record_types import Adapter

# -- known formats -------------------------------------------------------------------------------------
# Names a format that a line almost has, and a writer that is newer than the tested one.
#
# If a file has all but one of the keys of a format, it is named, because a run without it might be
# incomplete.


#: A key, or several of which a line has one.
_Key = str | tuple[str, ...]

#: Keys of a line in BFCL's scores, which are read with its results: only failures are listed.
_FAILURE = frozenset({"id", "model_name", "test_category", "valid"})
_FAILURES = "lists only failures; open BFCL's result/{model}, which gets its scores from here"
#: Keys of a format's lines by the name that is shown. All others of a format must be there to name one.
_KEYS: tuple[tuple[str, tuple[_Key, ...]], ...] = (
    ("verl", ("input", "output", "score", "step")),
    ("NeMo-RL", ("content", ("filtered_rewards", "rewards"), "token_loss_mask")),
    ("ms-swift", (("gen_step", "step"), "prompt", "completion", "advantages")),
    ("ROLL", ("global_step", ("prompt", "messages"), "responses", "scores")),
    ("ROLL, agentic", ("global_step", "trajectory_data", "messages")),
    ("open-instruct", ("step", "prompt_tokens", "response_tokens")),
    ("AReaL", ("task_id", "prompt", "completion", "tail_version")),
    ("prime-rl", ("traces", "task", "run")),
    ("prime-rl's token exports", ("step", "token_ids", "loss_mask", "trainer_logprobs")),
    ("rLLM", ("trajectories", "task", "termination_reason", "is_correct")),
    ("SkyRL", ("input_prompt", "output_response", "score")),
    ("tinker-cookbook", ("split", "iteration", "total_reward", "steps", "group_idx", "traj_idx")),
    ("NeMo Gym", ("responses_create_params", "response", "reward")),
    ("miles", ("sample_index", "group_index", "status", "prompt", "messages")),
    ("miles", ("sample_index", "response_length", "total_length", "tokens")),
    ("ATIF", ("schema_version", "agent", "steps")),
    ("Harbor", ("trial_name", "task_name", "config", "agent_info")),
    ("Inspect", ("version", "status", "eval", "samples")),
    ("rlpanel", ("step", "prompt", "response", "reward")),
)
_MIN_KEYS = 2
#: Keys that other programs write as well: a line that has only these of a format may be anyone's.
_COMMON = frozenset(
    {"input", "output", "score", "step", "global_step", "content", "rewards", "prompt", "completion"}
    | {"response", "responses", "scores", "reward", "messages", "task_id", "task", "run", "agent", "steps"}
    | {"status", "config", "version", "samples", "eval", "tokens", "task_name", "is_correct", "split"}
    | {"trajectories", "advantages", "iteration", "total_reward"}
)
#: Keys beside those in `_KEYS` that only this writer gives.
_MARKS = {"verl": {"gts"}, "AReaL": {"head_version", "seqlen"}}


def lacking_key(document: Mapping[str, Any], *, sure: bool = False) -> str:
    """Return which key a line lacks to be one of a known format; empty if it looks like none.

    Parameters
    ----------
    document : mapping
        A parsed line that no adapter accepts.
    sure : bool
        Whether the line must have a key of the format that hardly another program writes.
    """
    found: list[tuple[int, str]] = []
    for name, keys in _KEYS:
        lacking = [key for key in keys if not _has(document, key)]
        if (
            len(lacking) == 1
            and len(keys) - 1 >= _MIN_KEYS
            and (not sure or _is_distinct(document, name, keys))
        ):
            key = lacking[0]
            wanted = repr(key) if isinstance(key, str) else " or ".join(map(repr, key))
            found.append((len(keys), f"looks like a log of {name}, but has no {wanted}"))
    if document.keys() >= _FAILURE:
        return _FAILURES
    return max(found, default=(0, ""))[1]


def _is_distinct(document: Mapping[str, Any], writer: str, keys: tuple[_Key, ...]) -> bool:
    """Return True if a line has a key that hardly another program writes, or keys of this format only."""
    names = {name for key in keys for name in ((key,) if isinstance(key, str) else key)}
    found = (names | _MARKS.get(writer, set())) & document.keys()
    return not _COMMON.issuperset(found) or (len(found) > _MIN_KEYS and len(found) == len(document))


def _has(document: Mapping[str, Any], key: _Key) -> bool:
    return key in document if isinstance(key, str) else any(each in document for each in key)


@dataclass(frozen=True)
class WriterVersion:
    """The newest version of a writer that was tested, and how a line names its own.

    Attributes
    ----------
    writer : str
    tested : str
        Numbers with dots.
    version_of : function
        Version that a line was written by; None if the line does not name it.
    """

    writer: str
    tested: str
    version_of: Callable[[Mapping[str, Any]], Any]


def _trace_version(document: Mapping[str, Any]) -> Any:
    """Return the version of verifiers in an episode of prime-rl."""
    traces = to_python(document.get("traces"))
    first = traces[0] if isinstance(traces, list) and traces else None
    library = first.get("verifiers") if isinstance(first, dict) else None
    return library.get("version") if isinstance(library, dict) else None


def _inspect_version(document: Mapping[str, Any]) -> Any:
    """Return the version of Inspect that wrote a log."""
    spec = to_python(document.get("eval"))
    packages = spec.get("packages") if isinstance(spec, dict) else None
    return packages.get("inspect_ai") if isinstance(packages, dict) else None


#: By the name of the adapter. A format whose lines do not name their writer's version is not listed.
VERSIONS: dict[str, WriterVersion] = {
    "prime-rl": WriterVersion("verifiers", "0.4.1", _trace_version),
    "ATIF": WriterVersion("ATIF", "1.8", lambda document: document.get("schema_version")),
    "Inspect": WriterVersion("Inspect", "0.3.285", _inspect_version),
    "tinker-cookbook": WriterVersion(
        "tinker-cookbook's summaries", "1", lambda document: document.get("schema_version")
    ),
}
_NUMBERS = re.compile(r"(?<![\d.])v?(\d{1,9}(?:\.\d{1,9}){0,3})")


def newer_version(adapter: str, document: Mapping[str, Any]) -> str:
    """Return a sentence about a line whose writer is newer than the tested one; empty if it is not.

    Parameters
    ----------
    adapter : str
        Name of the adapter that accepts the line.
    document : mapping
    """
    known = VERSIONS.get(adapter)
    if known is None:
        return ""
    match = _NUMBERS.search(str(known.version_of(document))[:80])
    if match is None or _parts(match[1]) <= _parts(known.tested):
        return ""
    return f"written by {known.writer} {match[1]}; the newest tested version is {known.tested}"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# -- content format ------------------------------------------------------------------------------------
# Formats of a file's records: an adapter's, that of the user's mapping, or an inferred one.
#
# Lines with the keys of a known format are its adapter's, even if the reward or the response has another
# name: that one is inferred, and said. If no adapter accepts a record, all fields are inferred from the first
# ones (`rlpanel.sources.inference`).


def accepted_format(each: Content, path: str, name: str) -> FileFormat | None:
    """Return the format of the first adapter that accepts one of the first records."""
    adapters = [adapter for adapter in ADAPTERS if not each.is_document or hasattr(adapter, "document_name")]
    for line in each.lines:
        # The line is parsed once for all adapters, because it may be long.
        document = parsed(line)
        adapter = next((each for each in adapters if document and accepts(each, name, document)), None)
        if document and adapter is not None:
            rewarded, newer = has_reward(adapter, path, document), newer_version(adapter.name, document)
            if adapter is TRL and not rewarded and (found := _unread_reward(each, path, name)):
                return found
            if adapter is NATIVE and (found := _renamed_response(document, each, name)):
                return found
            if adapter is NATIVE and not rewarded and (found := _renamed_reward(document, each, name)):
                return found
            if (
                adapter is NATIVE
                and each.container == DOCUMENT
                and not ("step" in document or said_step(name))
            ):
                continue  # `rollouts_003.json` is a sample
            return FileFormat(adapter, True, NO_STATUS, rewarded=rewarded, newer=newer)
        del document
        if each.container.kind == "items" and _keys_of(line) == _keys_of(each.lines[-1]):
            break  # the last of the first records would be refused, too
    return None


def guessed_format(
    each: Content, name: str, named: Adapter | None, last: MappedAdapter | None, *, declared: bool
) -> FileFormat:
    """Return what is inferred from the first records, which no adapter accepts, or else ``last``.

    A file whose name is ``declared`` by a format, and which lacks one key of it, is named and not guessed.
    """
    records = list(records_of(each.lines))
    looked_at = records[:1] if each.container.kind == "items" else records  # items of a list are alike
    lacking = next(filter(None, map(lacking_key, looked_at)), "") if named is None else ""
    is_other = bool(lacking) and not (declared or any(lacking_key(each, sure=True) for each in looked_at))
    is_one = each.container == DOCUMENT
    inference = infer(records, name, is_one=is_one) if records else None
    if is_one and records:
        of_objects = infer_document(records[0], name)
        is_better = of_objects is not None and (of_objects.is_run or not (inference and inference.is_run))
        inference = of_objects if is_better else inference
    inference = _at_step(inference, last) if inference is not None else None
    if inference is not None and inference.is_run and (not lacking or is_other or lacking.endswith("'step'")):
        return _inferred_format(inference, records, name, final=each.final)
    accepted = next((record for record in records if last and accepts(last, name, record)), None)
    if last is not None and accepted is not None:
        return FileFormat(last, each.final, NO_STATUS, rewarded=has_reward(last, name, accepted))
    problem, keys = f"is not read: it {lacking}" if lacking else "", content.keys_of(records)
    return FileFormat(named, each.final and not lacking, NO_STATUS, problem, inference=inference, keys=keys)


def _unread_reward(each: Content, path: str, name: str) -> FileFormat | None:
    """Return the inferred format of rows with TRL's keys if only the inference finds a reward."""
    records = list(records_of(each.lines))
    if any(has_reward(TRL, path, record) for record in records):
        return None
    inference = infer(records, name)
    is_rewarded = inference.is_run and "reward" in inference.keys
    return _inferred_format(inference, records, name, final=each.final) if is_rewarded else None


def _renamed_response(document: Mapping[str, Any], each: Content, name: str) -> FileFormat | None:
    """Return the format of lines with rlpanel's step and prompt, and a response under another name."""
    records = _records_without({"response", "messages", "response_token_ids"}, document, each)
    if not records:
        return None
    inference = infer(records, name)
    is_renamed = inference.is_run and {"response", "messages"} & inference.keys.keys()
    return _inferred_format(inference, records, name, final=each.final) if is_renamed else None


def _renamed_reward(document: Mapping[str, Any], each: Content, name: str) -> FileFormat | None:
    """Return the format of lines with rlpanel's names, but another one for the reward, such as ``score``."""
    if name.rpartition("/")[2].startswith(NAMED):
        return None
    records = _records_without({"reward", "rewards"}, document, each)
    if not records:
        return None
    inference = infer(records, name)
    key = inference.keys.get("reward", "")
    match = fields_of(key).get("reward")
    is_said = "." not in key and match is not None and match.group < UNSURE
    return (
        _inferred_format(inference, records, name, final=each.final) if inference.is_run and is_said else None
    )


def _records_without(
    keys: set[str], document: Mapping[str, Any], each: Content
) -> list[dict[str, Any]] | None:
    """Return the first records if none of them, nor the document, has one of these keys; else None."""
    if not keys.isdisjoint(document):  # most lines: the others need not be parsed
        return None
    records = list(records_of(each.lines))
    return records if all(map(keys.isdisjoint, records)) else None


def _at_step(inference: Inference, last: MappedAdapter | None) -> Inference:
    """Return an inference with the step that the user gives to files that name none."""
    if last is None or "step" not in inference.missing:
        return inference
    others = tuple(lacked for lacked in inference.missing if lacked != "step")
    return replace(inference, step=last.step, missing=others)


def mapped_format(
    mapped: MappedAdapter, each: Content, name: str, last: MappedAdapter | None
) -> FileFormat | None:
    """Return the format of a file with the mapped keys; None if it lacks them.

    What the mapping does not name and the file lacks otherwise, such as the step, is inferred.
    """
    records = list(records_of(each.lines))
    absent = mapped.absent_from(records)
    accepted = next((record for record in records if accepts(mapped, name, record)), None)
    if accepted is not None:
        rewarded = has_reward(mapped, name, accepted)
        return FileFormat(mapped, each.final or not absent, NO_STATUS, rewarded=rewarded)
    if not records or {"prompt", "response", "messages"} & absent.keys():
        return None
    inference = _at_step(infer(records, name, mapped), last)
    return _inferred_format(inference, records, name, final=each.final) if inference.is_run else None


def _inferred_format(
    inference: Inference, records: list[dict[str, Any]], name: str, *, final: bool
) -> FileFormat:
    """Return the format of a file whose fields were inferred."""
    adapter, keys = inference.adapter(), content.keys_of(records)
    # A document of objects is not read whole only for that: the inference has looked at its rewards.
    is_seen = inference.of_objects and "reward" in inference.keys
    rewarded = is_seen or has_reward(adapter, name, records[0])
    return FileFormat(adapter, final, NO_STATUS, rewarded=rewarded, inference=inference, keys=keys)


def _keys_of(line: bytes) -> frozenset[str]:
    return frozenset(parsed(line) or ())
