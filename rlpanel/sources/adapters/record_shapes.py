"""Shapes of unknown documents: samples by id, by step, in parallel columns, and talks in lists of texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise, starmap, zip_longest
from typing import Any

from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.message_spellings import ROLE_OF, role_of

# -- records by id -------------------------------------------------------------------------------------
# Samples that a document keeps by id: ``{"t1": "text"}``, or several such objects with the same ids.
#
# A line may hold one of them: its only key is the question. Programs write texts so (``{id:
# [generations]}``), with verdicts under the same ids beside them. The function `arrange_by_id` gives one
# record for each id, below the key ``by_id``, and `arrange_question` gives a line's question and steps.


#: Key of the records that are made, and the part of a mapped key that leads to them.
BY_ID = "by_id"
PREFIX = f"{BY_ID}.*."
#: Key of a record's question and steps, and the part of a mapped key that leads to them.
BY_QUESTION = "by_question"
QUESTION_PREFIX = f"{BY_QUESTION}."
#: Fewest ids, and fewest words of an id that is a question.
_MIN_IDS, _PROMPT_WORDS = 2, 4
#: Share of an object's ids that another one must have.
_SHARED = 0.9


def arrange_by_id(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with one record for each id; None if it does not keep texts by id.

    A record has ``id``, or ``prompt`` if the ids are questions, and the value of each object under the
    object's key, or ``response`` if the document itself is the object.
    """
    if len(document) >= _MIN_IDS and not any(hasattr(value, "keys") for value in document.values()):
        values = {key: to_python(value) for key, value in document.items()}
        return {BY_ID: _records({"response": values})} if _holds_texts(values) else None
    values = {key: to_python(value) for key, value in document.items()}
    objects = {key: each for key, each in values.items() if isinstance(each, dict) and _is_flat(each)}
    first = next((key for key, each in objects.items() if _holds_texts(each)), None)
    if first is None:
        return None
    ids = objects[first].keys()
    alike = {
        key: each
        for key, each in objects.items()
        if len(ids & each.keys()) >= _SHARED * len(ids | each.keys())
    }
    others = {key: each for key, each in values.items() if key not in alike}
    are_texts = len(alike) > 1 and all(map(_holds_texts, alike.values()))
    if are_texts and not any("generation" in key for key in alike):
        return {**others, BY_ID: _records_of_models(alike)}
    return {**others, BY_ID: _records(alike)}


def arrange_question(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a record whose only key is the question, with it as a text; None for any other record.

    Under the key is a list of objects, such as the steps to the answer.
    """
    if len(document) != 1:
        return None
    ((question, value),) = document.items()
    steps = to_python(value) if len(question.split()) >= _PROMPT_WORDS else None
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        return None
    return {BY_QUESTION: {"prompt": question, "steps": steps}}


def _records(objects: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    ids = list(dict.fromkeys(each for values in objects.values() for each in values))
    asked = sum(len(each.split()) >= _PROMPT_WORDS for each in ids) > len(ids) // 2
    name = "prompt" if asked else "id"
    return [
        {name: each} | {key: values[each] for key, values in objects.items() if each in values}
        for each in ids
    ]


def _records_of_models(objects: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a record for each text of each model, which the objects' keys name."""
    return [
        {"id": each, "model": model, "response": text}
        for model, values in objects.items()
        for each, text in values.items()
    ]


def _is_flat(values: Mapping[str, Any]) -> bool:
    """Return True for an object of several texts and numbers, or of lists of such."""
    return len(values) >= _MIN_IDS and all(_is_plain(value) for value in values.values())


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and not any(isinstance(item, (dict, list)) for item in value)
    return not isinstance(value, dict)


def _holds_texts(values: Mapping[str, Any]) -> bool:
    """Return True if all values are texts, or all are lists of texts. Some texts may be blank."""
    lists = [value for value in values.values() if isinstance(value, list)]
    texts = [item for value in lists for item in value] or list(values.values())
    is_same = not lists or len(lists) == len(values)
    return (
        len(values) >= _MIN_IDS and is_same and bool(texts) and all(isinstance(each, str) for each in texts)
    )


# -- records by step -----------------------------------------------------------------------------------
# Samples that a document keeps by step: ``{"step_0": [samples], "step_10": [samples]}``.
#
# The function `arrange_by_step` gives each sample its step, and puts all below the key ``by_step``.


#: Key of the samples, and the part of a mapped key that leads to them.
BY_STEP = "by_step"
STEP_PREFIX = f"{BY_STEP}.*."
_WORDS = "(?:global|train|training|policy)?_?(?:step|iter|iteration|update|checkpoint|ckpt|epoch)"
_NAMED = re.compile(rf"{_WORDS}[ _=-]?(\d{{1,12}})", re.IGNORECASE)
_BARE = re.compile(r"0|[1-9]\d{0,11}", re.ASCII)
#: Keys of an object whose keys are steps.
_OF_STEPS = re.compile(rf"(?:by_|per_)?{_WORDS}s?", re.IGNORECASE)
#: Least number that divides all steps where nothing but numbers says that they are steps.
_MIN_DISTANCE = 5


def arrange_by_step(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with one list of samples, each with its step; None if it keeps none by step.

    Numbers alone are steps if they rise in distances of 5 or more and the samples below them do not share a
    text: then they number questions.
    """
    for key, value in [("", document), *document.items()]:
        by_key = to_python(value) if key else dict(document)
        if not isinstance(by_key, dict) or len(by_key) <= 1:
            continue
        steps = _steps_of(list(by_key), key)
        lists = [_samples_of(to_python(each)) for each in by_key.values()] if steps else []
        if not steps or not all(lists) or max(map(len, lists)) <= 1:
            continue
        if any("step" in sample for samples in lists for sample in samples):
            continue
        if any(map(_BARE.fullmatch, by_key)) and _share_a_text(lists):
            continue
        others = {other: each for other, each in document.items() if key and other != key}
        samples = [
            {**sample, "step": step} for step, samples in zip(steps, lists, strict=True) for sample in samples
        ]
        return {**others, BY_STEP: samples}
    return None


def are_numbers_of_lists(values: Mapping[str, Any]) -> bool:
    """Return True for lists under 0, 1, 2 and so on: steps, attempts or questions."""
    return (
        len(values) > 1
        and list(values) in ([str(at + first) for at in range(len(values))] for first in (0, 1))
        and all(isinstance(value, list) for value in values.values())
    )


def _steps_of(keys: Sequence[str], around: str) -> list[int]:
    """Return the steps that all keys name, in rising order; none if they do not."""
    named = [_NAMED.fullmatch(key) for key in keys]
    if all(named):
        steps = [int(match[1]) for match in named if match is not None]
    elif all(map(_BARE.fullmatch, keys)):
        steps = [int(key) for key in keys]
        if math.gcd(*steps) < _MIN_DISTANCE and not _OF_STEPS.fullmatch(around):
            return []
    else:
        return []
    return steps if all(before < after for before, after in pairwise(steps)) else []


def _samples_of(value: Any) -> list[dict[str, Any]]:
    """Return a list of objects, or the only one in an object; empty for any other value."""
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        value = lists[0] if len(lists) == 1 else []
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []


def _share_a_text(lists: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Return True if a key has one text in each list, and different ones in different lists."""
    for key in lists[0][0]:
        texts = [{str(each.get(key)) for each in samples} for samples in lists]
        is_text = isinstance(lists[0][0][key], str)
        if is_text and all(len(each) == 1 for each in texts) and len(set().union(*texts)) == len(lists):
            return True
    return False


# -- parallel columns ----------------------------------------------------------------------------------
# Columns with a value for each of several samples: ``gen_0``, ``gen_1``, or ``base_answer``, ``new_answer``.
#
# A key with ``*`` inside of a name stands for all of them: ``gen_*`` for numbers, ``*_answer`` for names.
# Names that share no part are joined: ``chosen+rejected``. The value of such a key is the list of theirs, so
# that a record with such columns reads like a line with one group.


#: Joins the names of columns.
PLUS = "+"
#: Words of a key that compares answers.
_BETTER = frozenset(
    {"winner", "preference", "preferred", "better", "best", "verdict", "choice", "vote", "decision", "pick"}
    | {"judgment", "judgement", "judge", "win"}
)
#: Verdicts on two answers that are equally good.
_TIE = re.compile(r"(?:tie|draw|both|equal|neither|none)(?![a-z])")
#: Longest verdict.
_VERDICT_CHARS = 40
_WORD = re.compile(r"[a-z]+|\d+")


def stands_for_columns(key: str) -> bool:
    """Return True for ``gen_*`` and ``chosen+rejected``, but not for a key that enters a list."""
    if PLUS in key and "*" not in key:
        return all(key.split(PLUS)) and len(set(key.split(PLUS))) == key.count(PLUS) + 1
    return "*" in key and "." not in key and len(key) > 1 and key.count("*") == 1


def columns_of(key: str, names: Iterable[str]) -> list[str]:
    """Return the names for which a key stands, in the order of their numbers, or of the record."""
    if "*" not in key:
        return key.split(PLUS)
    before, _, after = key.partition("*")
    if not after:
        numbers = {name: name[len(before) :] for name in names if name.startswith(before)}
        numbered = {name: int(number) for name, number in numbers.items() if _is_number(number)}
        return sorted(numbered, key=lambda name: numbered[name])
    least = len(before) + len(after)
    return [name for name in names if name.startswith(before) and name.endswith(after) and len(name) > least]


def values_of(key: str, record: Mapping[str, Any], default: Any = None) -> Any:
    """Return the list of the values for which a key stands; the default if the record has none of them."""
    values = [record.get(name) for name in columns_of(key, record)]
    return values if any(value is not None for value in values) else default


def says_better(key: str) -> bool:
    """Return True for a key whose value may say which of several answers is the best."""
    return not _BETTER.isdisjoint(_WORD.findall(key.lower()))


def wins_of(verdict: Any, columns: Sequence[str], record: Mapping[str, Any]) -> list[float] | None:
    """Return 1 for the column that a verdict names, and 0 for the others; a tie is 0.5.

    The verdict may have the part of the column's name that others lack, such as ``A`` or 2, or a value that
    the record has under another key with this part: ``model_a``. None if it names none of them.
    """
    if isinstance(verdict, bool) or not isinstance(verdict, (str, int, float)) or len(columns) < 2:
        return None
    number = int(verdict) if isinstance(verdict, float) and verdict.is_integer() else verdict
    text = str(number).strip().lower()
    words = _WORD.findall(text)
    if not 0 < len(text) <= _VERDICT_CHARS or not words:
        return None
    if _TIE.match(text):
        return [0.5] * len(columns)
    labels = _labels(columns)
    said = [label for label in labels if words[-1] == label or " ".join(words) == label]
    if not said:
        others = {key: each for key, each in record.items() if each == verdict and key not in columns}
        said = [
            label for label in labels if any(_WORD.findall(key.lower())[-1:] == [label] for key in others)
        ]
    return [float(label == said[0]) for label in labels] if len(said) == 1 else None


def _labels(columns: Sequence[str]) -> list[str]:
    """Return the parts of names that the others lack."""
    words = [_WORD.findall(name.lower()) for name in columns]
    shared = set(words[0]).intersection(*words[1:])
    return [" ".join(word for word in each if word not in shared) for each in words]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


# -- talk lists ----------------------------------------------------------------------------------------
# A conversation that is kept in lists of texts, and not as messages.
#
# There may be a list for each speaker, ``{"user": [...], "assistant": [...]}``, or one list of lines that
# begin with the speaker: ``["User: hello", "Agent (12:30): yes?"]``. An object may hold one speech under the
# name of each turn, ``{"speeches": {"opening": "...", "reply": "..."}}``: both sides are models then, so that
# all its turns are the policy's. The function `arrange_talk` adds the messages in their order, below the key
# ``talk``.


#: Key of the messages.
TALK = "talk"
#: Beginning of a line with its speaker, and perhaps the time.
_SPEAKER = re.compile(r"\s*([A-Za-z][\w -]{0,23}?)\s*(?:\([^()\n]{1,40}\))?\s*:\s", re.ASCII)
#: Keys of an object with the texts of a debate, fewest of them, and the length of half of them at least.
_SPEECHES = re.compile(r"speeches|utterances|debate|dialogue|transcript|statements", re.IGNORECASE)
_MIN_SPEECHES, _SPEECH_CHARS = 3, 80
#: Most speakers of a conversation, and most lines.
_MAX_SPEAKERS, _MAX_LINES = 4, 10_000


def arrange_talk(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document with the messages of its speakers; None if it has no such lists.

    The user's list has as many texts as the policy's, or one more. Lines have two to four speakers, one of
    whom is the policy.
    """
    if TALK in document:
        return None
    messages = _of_two_lists(document) or next(filter(None, map(_of_lines, document.values())), None)
    messages = messages or next(filter(None, starmap(_of_speeches, document.items())), None)
    return None if messages is None else {**document, TALK: messages}


def _of_two_lists(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    roles = {role_of(key): key for key in document}
    if not {"user", "assistant"} <= roles.keys():
        return None
    asked, answered = (to_python(document[roles[role]]) for role in ("user", "assistant"))
    if not all(map(_are_texts, (asked, answered))) or len(asked) - len(answered) not in (0, 1):
        return None
    turns = chain.from_iterable(zip_longest(asked, answered))
    return [
        {"role": "assistant" if at % 2 else "user", "content": text}
        for at, text in enumerate(turns)
        if text is not None
    ]


def _of_speeches(key: str, value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of an object of speeches, by its key; None for any other value."""
    if _SPEECHES.search(key) is None or not hasattr(value, "keys") or len(value) > _MAX_LINES:
        return None
    turns = {name: text for name, text in to_python(value).items() if text is not None}
    texts = [text for text in turns.values() if isinstance(text, str)]
    long = sum(len(text) >= _SPEECH_CHARS for text in texts)
    if len(texts) != len(turns) or len(turns) < _MIN_SPEECHES or 2 * long < len(turns):
        return None
    return [{"role": "assistant", "name": name, "content": text} for name, text in turns.items()]


def _of_lines(value: Any) -> list[dict[str, Any]] | None:
    """Return the messages of lines that all begin with a speaker; None for any other value."""
    if not (isinstance(value, list) or hasattr(value, "as_list")):
        return None
    lines = to_python(value)
    if not _are_texts(lines) or not 1 < len(lines) <= _MAX_LINES:
        return None
    found = [_SPEAKER.match(line) for line in lines]
    names = [match[1] for match in found if match is not None]
    if len(names) != len(lines) or not _are_speakers(names):
        return None
    return [
        {"role": ROLE_OF.get(name.lower(), "user"), "name": name, "content": line[match.end() :]}
        for name, line, match in zip(names, lines, found, strict=True)
        if match is not None
    ]


def _are_speakers(names: Sequence[str]) -> bool:
    """Return True for two to four speakers, one of whom is the policy, and who speak again."""
    speakers = set(names)
    policies = [name for name in speakers if ROLE_OF.get(name.lower()) == "assistant"]
    return 1 < len(speakers) <= _MAX_SPEAKERS and len(policies) == 1 and names.count(policies[0]) > 1


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)
