"""`infer`: decides from a sample of records which key holds which field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlpanel.sources.adapters.key_mapping import MappedAdapter, listed_columns, objects_at
from rlpanel.sources.inference import content
from rlpanel.sources.inference.field_choice import FieldChoice
from rlpanel.sources.inference.inference import Guess, Inference
from rlpanel.sources.inference.key_values import read_key_values
from rlpanel.sources.records.path_numbers import said_step, step_from_path

#: Records that are looked at.
SAMPLE = 20
#: The order in which guesses are shown; the others follow.
_FIRST = ("prompt", "response", "messages", "reward")


def infer(
    records: Sequence[Mapping[str, Any]],
    path: str = "",
    mapped: MappedAdapter | None = None,
    *,
    is_one: bool = False,
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
    """
    records = [listed_columns(record) for record in records]
    sample = [content.values_by_path(record) for record in records[:SAMPLE]]
    columns = read_key_values(sample)
    found = FieldChoice(columns, mapped, path)
    if any(".*." in candidate.guess.key for candidate in found.taken.values()):
        # Attempts inside of a record are not samples if the record has its own final answer and its verdict.
        whole = FieldChoice([column for column in columns if ".*." not in column.key], mapped, path)
        found = whole if whole.has_final_answer else found
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
        top_keys=tuple(dict.fromkeys(key for record in records[:SAMPLE] for key in record)),
        is_one=is_one,
    )


def infer_document(document: Mapping[str, Any], path: str = "") -> Inference | None:
    """Infer the fields of a document whose samples are the values of objects; None if it holds none.

    The keys begin with the path to the samples, in which ``*`` stands for each value.
    """
    for prefix in _paths_to_objects(document):
        objects = list(objects_at(document, prefix))
        found = infer(objects, path)
        if len(objects) > 1 and found.is_run:
            guesses = [replace(each, key=f"{prefix}.{each.key}") for each in found.guesses]
            return replace(found, guesses=tuple(guesses), of_objects=True, top_keys=tuple(document))
    return None


def _paths_to_objects(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths to objects that are alike, below the document itself and below each of its keys."""
    around = {"": document, **{f"{key}.": value for key, value in document.items() if "." not in key}}
    for prefix, value in around.items():
        if prefix and any(other is not value and _hold_the_same(other, value) for other in document.values()):
            continue  # it would be a part of the samples
        if not isinstance(value, dict) or not value:
            continue
        children = list(value.values())
        if _are_alike(children):
            named = [key for key in children[0] if all(_are_alike(each.get(key)) for each in children)]
            yield f"{prefix}*"
            yield from (f"{prefix}*.{key}.*" for key in named)
        elif all(isinstance(each, list) and _are_alike(each) for each in children):
            yield f"{prefix}*.*"
        elif all(isinstance(each, dict) and _are_alike(list(each.values())) for each in children):
            inner = [item for each in children for item in each.values()]
            if _are_alike(inner):  # objects by model and by task
                yield f"{prefix}*.*"


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
