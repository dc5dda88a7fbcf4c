"""Formats of a file's records: an adapter's, that of the user's mapping, or an inferred one.

Lines with the keys of a known format are its adapter's, even if the reward or the response has another name:
that one is inferred, and said. If no adapter accepts a record, all fields are inferred from the first ones
(`rlpanel.sources.inference`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from rlpanel.sources.discovery.known_formats import lacking_key, newer_version
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import fields_of
from rlpanel.sources.inference.infer import infer, infer_document
from rlpanel.sources.inference.inference import Inference
from rlpanel.sources.inference.known_fields import UNSURE
from rlpanel.sources.readers.containers import DOCUMENT, Content
from rlpanel.sources.records.adapter_calls import accepts
from rlpanel.sources.records.path_numbers import said_step
from rlpanel.sources.records.record_types import Adapter


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
