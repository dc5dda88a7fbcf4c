"""Values that look like a task's score: verdicts on a request, and the share of solved tasks so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rlpanel.sources.adapters.key_mapping import value_at
from rlpanel.sources.inference.aliases import fields_of, plain_name

# -- request status ------------------------------------------------------------------------------------
# Recognises verdicts on a request, not on the task: ``success`` beside ``status_code`` or ``error``.


_VERDICTS = frozenset({"success", "is_success", "succeeded", "successful", "is_successful", "ok", "is_ok"})
_CODES = frozenset({"status_code", "http_status", "http_status_code", "http_code", "response_code"})
_ERRORS = frozenset({"error", "error_message", "error_msg", "error_type", "err", "exception"})
#: Words of keys under which a program that sends requests writes what they took.
_MEASURES = frozenset({"latency", "usage", "elapsed", "duration", "cost"})
#: Groups of a response's names that hardly mean anything else.
_SURE_NAMES = 3


class RequestStatus(NamedTuple):
    """Keys whose truth values say that a request succeeded, and keys that may say so."""

    sure: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()


NO_REQUESTS = RequestStatus()


def read_request_status(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> RequestStatus:
    """Return the keys among ``keys`` that hold the status of a request.

    It is sure if a verdict agrees with each HTTP code, or if it is false exactly where there is an error and
    no text. A verdict that is true wherever there is no error may as well be the task's. Without codes and
    errors it is the request's if records with a time or a token count have a text exactly where it is true.
    """
    sure, unsure = set(), set()
    for key in keys:
        if plain_name(key.rpartition(".")[2]) not in _VERDICTS or "*" in key:
            continue
        parent, _, name = key.rpartition(".")
        found = [each for each in _objects(records, parent) if isinstance(each.get(name), bool)]
        codes = [(each[name], code) for each in found if (code := _code(each)) is not None]
        if codes and len(codes) == len(found) and all(ok == (200 <= code < 300) for ok, code in codes):
            sure.add(key)
        elif found and all(_holds_errors(each) and each[name] != _has_error(each) for each in found):
            failed = [each for each in found if not each[name]]
            is_silent = bool(failed) and not any(map(_has_text, failed))
            (sure if is_silent else unsure).add(key)
        elif found and not codes and all(map(_is_measured, found)):
            failed = [each for each in found if not each[name]]
            if failed and all(each[name] == _has_text(each) for each in found):
                sure.add(key)
            elif not failed:
                unsure.add(key)
    return RequestStatus(frozenset(sure), frozenset(unsure))


def _objects(records: Sequence[Mapping[str, Any]], parent: str) -> Iterator[Mapping[str, Any]]:
    for record in records:
        value = value_at(record, parent) if parent else record
        if isinstance(value, Mapping):
            yield value


def _code(value: Mapping[str, Any]) -> int | None:
    codes = [each for key, each in value.items() if plain_name(key) in _CODES]
    return codes[0] if codes and isinstance(codes[0], int) else None


def _holds_errors(value: Mapping[str, Any]) -> bool:
    return any(plain_name(key) in _ERRORS for key in value)


def _has_error(value: Mapping[str, Any]) -> bool:
    return any(bool(each) for key, each in value.items() if plain_name(key) in _ERRORS)


def _is_measured(value: Mapping[str, Any]) -> bool:
    """Return True if an object names a model and what its request took."""
    names = [plain_name(key).split("_") for key in value]
    is_named = any(words[0] == "model" for words in names)
    return is_named and any(not _MEASURES.isdisjoint(words) for words in names)


def _has_text(value: Mapping[str, Any]) -> bool:
    """Return True if a key with a response's name holds something."""
    return any(
        bool(each) and not isinstance(each, (bool, int, float))
        for key, each in value.items()
        if (match := fields_of(key).get("response")) is not None and match.group < _SURE_NAMES
    )


# -- running means -------------------------------------------------------------------------------------
# Recognises the share of solved tasks so far, which some programs write into each record.


#: Fewest records, and fewest of them with a verdict of their own.
_MIN_RECORDS, _MIN_VERDICTS = 5, 3
#: Largest error of a rounded mean, times the number of records: more would hide a single verdict.
_MAX_ERROR = 0.25
#: Most decimals of a mean.
_DECIMALS = 12


def running_means(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the keys that hold a mean so far, each with the key of the verdicts whose mean it is.

    The records are the first ones of a file, in their order. Some may lack the verdict.
    """
    means: dict[str, str] = {}
    if len(records) < _MIN_RECORDS:
        return means
    rewards = [key for key in records[0] if "reward" in fields_of(key)]
    verdicts = dict.fromkeys(key for record in records for key in record if "reward" in fields_of(key))
    for key in rewards:
        added = _added([record.get(key) for record in records])
        for other in verdicts if added else ():
            pairs = [
                (record[other], each)
                for record, each in zip(records, added, strict=True)
                if isinstance(record.get(other), (bool, int)) and other != key
            ]
            if len(pairs) >= _MIN_VERDICTS and all(verdict == each for verdict, each in pairs):
                means[key] = other
    return means


def _added(values: Sequence[Any]) -> list[int]:
    """Return what each record adds to the sum of 0 and 1 whose mean the values are; none for others."""
    if not all(isinstance(value, float) and 0.0 <= value <= 1.0 for value in values):
        return []
    if all(value in (0.0, 1.0) for value in values):
        return []
    decimals = max(len(repr(value).partition(".")[2]) for value in values)
    error = 0.5 * 10.0 ** -min(decimals, _DECIMALS)
    if error * len(values) > _MAX_ERROR:
        return []
    sums = [value * count for count, value in enumerate(values, 1)]
    whole = [round(each) for each in sums]
    if any(abs(each - number) > error * len(values) for each, number in zip(sums, whole, strict=True)):
        return []
    added = [after - before for before, after in pairwise([0, *whole])]
    return added if set(added) <= {0, 1} else []
