"""`infer`: decides from a sample of records which key holds which field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from rlpanel.sources.adapters.key_mapping import MappedAdapter, listed_columns, objects_at
from rlpanel.sources.adapters.record_shapes import (
    BY_ID,
    BY_STEP,
    TALK,
    are_numbers_of_lists,
    arrange_by_id,
    arrange_by_step,
    arrange_question,
    arrange_talk,
)
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import fields_of
from rlpanel.sources.inference.column_values import read_key_values
from rlpanel.sources.inference.field_choice import FieldChoice
from rlpanel.sources.inference.inference import NOT_REWARD, Guess, Inference
from rlpanel.sources.inference.rollout_evidence import says_model, says_samples
from rlpanel.sources.inference.unrelated_scores import read_request_status, running_means
from rlpanel.sources.records.path_numbers import said_step, step_from_path
from rlpanel.sources.spans.call_tree import CALLS, arrange_calls

#: Records that are looked at.
SAMPLE = 20
#: Fewest words of a sentence.
_WORDS = 3
#: Keys of a document below which samples are searched.
_MAX_PARTS = 64
#: Records of a document that are looked at, and the keys around them.
_IN_DOCUMENT, _MAX_NAMES, _MAX_CHARS = 100, 8, 400
#: Keys of texts by id that other programs write as well.
_TEXTS_BY_ID = frozenset({"outputs", "responses", "predictions", "output", "answers", "preds"})
#: Most objects below one another, and most of them that are looked at.
_MAX_LEVELS, _MAX_OBJECTS = 4, 200_000
#: The order in which guesses are shown; the others follow.
_FIRST = ("prompt", "response", "messages", "reward")


def infer(
    records: Sequence[Mapping[str, Any]],
    path: str = "",
    mapped: MappedAdapter | None = None,
    *,
    is_one: bool = False,
    around: str = "",
    most: int = SAMPLE,
) -> Inference:
    """Infer the fields of the records of a file; the same arguments give the same result.

    Parameters
    ----------
    records : sequence of mapping
        Parsed lines; the first 20 count.
    path : str
        The file's path below its run, which may name a step.
    mapped : MappedAdapter, optional
        What the user says about the keys; the rest is inferred.
    is_one : bool
        Whether the file is one record.
    around : str
        Keys around the records in their document.
    most : int
        Records that are looked at, in equal distances.
    """
    records = [
        arrange_calls(record) or arrange_question(record) or arrange_talk(record) or listed_columns(record)
        for record in records
    ]
    sample = [content.values_by_path(record) for record in records[:: max(1, len(records) // most)][:most]]
    means = running_means(records[:SAMPLE])
    columns = [column for column in read_key_values(sample) if column.key not in means]
    requests = read_request_status(records[:SAMPLE], [column.key for column in columns])
    found = FieldChoice(columns, mapped, path, around, requests)
    if any(".*." in candidate.guess.key for candidate in found.taken.values()):
        # Attempts inside of a record are not samples if the record has its own final answer and its verdict.
        single = [column for column in columns if ".*." not in column.key]
        whole = FieldChoice(single, mapped, path, around, requests)
        found = whole if whole.has_final_answer else found
    found.doubts += [f"{key} {NOT_REWARD}: it is the mean of {each} so far" for key, each in means.items()]
    guesses = {
        meaning: found.taken[meaning].guess for meaning in (*_FIRST, *found.taken) if meaning in found.taken
    }
    named = said_step(path) if is_one else step_from_path(path)
    constant = named if mapped is None or mapped.step is None else mapped.step
    is_run = found.are_rollouts()
    equal_keys = found.equal_keys() if is_run else ()
    return Inference(
        tuple(guesses.values()),
        len(records),
        None if "step" in guesses else constant or 0,
        tuple(_missing(guesses, has_step=constant is not None)),
        equal_keys,
        is_run and not equal_keys,
        likely="" if {"response", "messages"} & guesses.keys() else found.likely_text(),
        top_keys=tuple(
            dict.fromkeys(key for record in records[:SAMPLE] for key in record if key not in (CALLS, TALK))
        ),
        is_one=is_one,
        doubts=tuple(found.doubts),
    )


def infer_document(document: Mapping[str, Any], path: str = "") -> Inference | None:
    """Infer the fields of a document whose samples are the values of objects; None if it holds none.

    The keys begin with the path to the samples, in which ``*`` stands for each value. Texts that are not
    known to be samples are proposed, if nothing else in the document is.
    """
    found = _infer_by_id(document, path) or _infer_by_step(document, path)
    if found is not None:
        return found
    proposed: Inference | None = None
    for prefix in _paths_to_objects(document):
        objects, around = list(objects_at(document, prefix)), " ".join(list(document)[:_MAX_NAMES])
        found = infer(objects, path, around=around[:_MAX_CHARS], most=_IN_DOCUMENT)
        if len(objects) > 1 and found.is_run:
            return _below(_doubt_numbers(found, prefix, document), prefix, document)
        is_like = len(objects) > 1 and {"prompt", "response"} <= found.keys.keys() and not found.equal
        is_judged = len(objects) > 1 and bool(found.likely) and "reward" in found.keys and not found.equal
        proposed = proposed or (_below(found, prefix, document) if is_like or is_judged else None)
    return proposed


def _infer_by_step(document: Mapping[str, Any], path: str) -> Inference | None:
    """Infer the fields of samples by step; None if a document does not hold them so."""
    arranged = arrange_by_step(document)
    if arranged is None:
        return None
    found = infer(arranged[BY_STEP], path, around=" ".join(document)[:_MAX_CHARS], most=_IN_DOCUMENT)
    return _below(found, f"{BY_STEP}.*", document) if found.is_run else None


def _doubt_numbers(found: Inference, prefix: str, document: Mapping[str, Any]) -> Inference:
    """Say that numbers around lists of samples may be steps, if nothing else names one."""
    around: Any = document
    for part in prefix.partition("*")[0].split(".")[:-1]:
        around = around.get(part)
    if prefix.endswith("*.*") and "step" in found.missing and are_numbers_of_lists(around):
        doubt = f"the numbers {next(iter(around))} to {list(around)[-1]} around the samples may be steps"
        return replace(found, doubts=(*found.doubts, doubt))
    return found


def _infer_by_id(document: Mapping[str, Any], path: str) -> Inference | None:
    """Infer the fields of texts by id, if their key or the file's name says that a policy wrote them."""
    arranged = arrange_by_id(document) if listed_columns(document) is document else None
    if arranged is None or not _are_ids([record.get("id", "") for record in arranged[BY_ID]]):
        return None
    found = infer(arranged[BY_ID], path, most=_IN_DOCUMENT)
    answer = found.keys.get("response", "")
    is_written = says_model(path, document) and _are_sentences(arranged[BY_ID], answer)
    said = is_written or _says_samples(answer, arranged[BY_ID])
    if not found.is_run and (not answer or found.equal or not said):
        return None
    return replace(_below(found, f"{BY_ID}.*", document), is_run=True)


def _says_samples(key: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a key says that a policy wrote the texts; ``outputs`` does beside numbered ids."""
    numbered = sum(str(record.get("id", ""))[-1:].isdecimal() for record in records)
    return says_samples(key) or (key in _TEXTS_BY_ID and numbered == len(records))


def _are_sentences(records: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Return True if half of the texts have several words: figures by name have none."""
    texts = [" ".join(map(str, content.items_of(record.get(key, "")))) for record in records]
    return 2 * sum(len(text.split()) >= _WORDS for text in texts) >= len(texts)


def _are_ids(names: Sequence[str]) -> bool:
    """Return True if most names are ids, not keys: they have a number, a slash or several words."""
    counted = sum(not name or any(each in "/ " or each.isdigit() for each in name) for name in names)
    return 2 * counted > len(names) and not any(fields_of(name) for name in names[:SAMPLE] if name)


def _below(found: Inference, prefix: str, document: Mapping[str, Any]) -> Inference:
    """Return an inference whose keys begin with the path to the samples in a document."""
    guesses = tuple(replace(each, key=f"{prefix}.{each.key}") for each in found.guesses)
    likely = f"{prefix}.{found.likely}" if found.likely else ""
    return replace(found, guesses=guesses, likely=likely, of_objects=True, top_keys=tuple(document))


def _paths_to_objects(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths to objects that are alike, below the document itself and below each of its keys."""
    named = dict(islice(document.items(), _MAX_PARTS))  # a document with more keys holds its samples by id
    around = {"": document, **{f"{key}.": value for key, value in named.items() if "." not in key}}
    for prefix, value in around.items():
        if prefix and any(other is not value and _hold_the_same(other, value) for other in named.values()):
            continue  # it would be a part of the samples
        if not isinstance(value, dict) or not value:
            continue
        children = list(value.values())
        if _are_alike(children):
            lists = [key for key in children[0] if all(_are_alike(each.get(key)) for each in children)]
            yield f"{prefix}*"
            if len(lists) > 1 and all(_are_alike([each[key][0] for key in lists]) for each in children):
                yield f"{prefix}*.*.*"  # the keys of the lists count something
            yield from (f"{prefix}*.{key}.*" for key in lists)
        elif all(isinstance(each, list) and _are_alike(each) for each in children):
            yield f"{prefix}*.*"
        if not prefix:
            yield from _paths_below(f"{prefix}*", children)


def _paths_below(prefix: str, values: list[Any]) -> Iterator[str]:
    """Yield the path to objects by model, by data set and by task: objects that are alike below others."""
    for _ in range(_MAX_LEVELS):
        objects = [each for each in values if isinstance(each, dict)]
        values = [item for each in objects for item in each.values() if isinstance(item, (dict, list))]
        prefix += ".*"
        if not objects or not values or len(values) > _MAX_OBJECTS:
            return
        if _are_alike(values):
            yield prefix


def _hold_the_same(value: Any, other: Any) -> bool:
    """Return True for two objects of objects that are all alike."""
    if not all(isinstance(each, dict) and each for each in (value, other)):
        return False
    return _are_alike([next(iter(value.values())), next(iter(other.values()))])


def _are_alike(values: Any) -> bool:
    """Return True for objects most of whose keys are the same."""
    if not isinstance(values, list) or not values or not all(isinstance(each, dict) for each in values):
        return False
    keys = [set(each) for each in values[:SAMPLE]]
    return 2 * len(set.intersection(*keys)) >= len(set.union(*keys)) > 0


def _missing(guesses: Mapping[str, Guess], *, has_step: bool) -> Iterator[str]:
    """Yield the names of what rollouts have and these records lack."""
    if not {"messages", "response"} & guesses.keys():
        yield "response"
    if "reward" not in guesses:
        yield "reward"
    if not {"messages", "prompt"} & guesses.keys():
        yield "prompt"
    if "step" not in guesses and not has_step:
        yield "step"
