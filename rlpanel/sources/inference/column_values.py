"""Tests of the key and the values of one column, and the values of each key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import NameMatch, fields_of, plain_name

# -- key values ----------------------------------------------------------------------------------------
# The values of each key in the sampled records, and the fields that a key may name.


#: Least share of the records that have a key.
_MIN_PRESENT = 0.3


class KeyValues(NamedTuple):
    """The values of a key in the records that have it, and the number of all records."""

    key: str
    values: list[Any]
    records: int

    @property
    def present(self) -> float:
        """Share of the records that have the key."""
        return len(self.values) / self.records


def read_key_values(sample: Sequence[Mapping[str, Any]]) -> list[KeyValues]:
    """Return the columns of enough records; a list's objects are read once, all of them or the only one."""
    values: dict[str, list[Any]] = {}
    for record in sample:
        for key, value in record.items():
            values.setdefault(key, []).append(value)
    columns = [KeyValues(key, each, len(sample)) for key, each in values.items()]
    several = {
        column.key.partition(".*.")[0]
        for column in columns
        if ".*." in column.key and any(len(value) > 1 for value in column.values)
    }
    return [
        column for column in columns if column.present >= _MIN_PRESENT and _is_entered(column.key, several)
    ]


def _is_entered(key: str, several: set[str]) -> bool:
    """Return True unless a list's objects are read otherwise: all of them, or the only one."""
    outer, star, inner = key.partition(".*.")
    if star:
        return outer in several and ".*." not in inner
    return not any(key.startswith(f"{name}.0.") for name in several)


def fields_of_keys(columns: Sequence[KeyValues]) -> dict[str, Mapping[str, NameMatch]]:
    """Return the fields that each key names; an object's only key may mean what the object means."""
    children: dict[str, set[str]] = {}
    for column in columns:
        parent, _, name = column.key.rpartition(".")
        children.setdefault(parent, set()).add(name)

    def around(key: str) -> str:
        parts = key.split(".")
        kept = [
            part
            for at, part in enumerate(parts)
            if not at or len(children.get(".".join(parts[:at]), ())) != 1
        ]
        return ".".join(kept)

    return {
        column.key: {**fields_of(around(column.key)), **fields_of(column.key)}
        if "." in column.key
        else fields_of(column.key)
        for column in columns
    }


def whole_texts(columns: list[KeyValues]) -> set[str]:
    """Return keys whose texts begin with those of one other key and end with those of another one."""
    texts = {
        column.key: column.values
        for column in columns
        if column.present == 1.0
        and {"prompt", "response"} & fields_of(column.key).keys()
        and all(isinstance(value, str) and value for value in column.values)
    }

    def relates(key: str, test: Callable[[str, str], bool]) -> set[str]:
        return {
            other
            for other, values in texts.items()
            if other != key
            and all(len(b) < len(a) and test(a, b) for a, b in zip(texts[key], values, strict=True))
        }

    return {
        key
        for key in texts
        if (ends := relates(key, str.endswith))
        and (starts := relates(key, str.startswith))
        and ends != starts
    }


# -- column values -------------------------------------------------------------------------------------
# Tests of the key and the values of one column.


#: Words of a key whose numbers are not rewards.
_NOT_REWARDS = frozenset(
    {"example", "sample", "attempt", "trial", "row", "line"}
    | {"id", "idx", "index", "step", "epoch", "turn", "turns", "rank", "seed", "port", "level", "rating"}
    | {"count", "num", "len", "length", "tokens", "chars", "size", "n", "k", "max", "min", "top", "version"}
    | {"time", "timestamp", "date", "year", "seconds", "ms", "latency", "duration", "cost", "price"}
    | {"temperature", "logprob", "logprobs", "prob", "probability", "loss", "perplexity", "ppl", "entropy"}
    | {"confidence", "certainty"}
)
#: Words of a key whose truth says that something went wrong, or nothing about the answer.
_AGAINST = frozenset(
    {"error", "errors", "exception", "failed", "fail", "failure", "crashed", "wrong", "incorrect", "invalid"}
    | {"missing", "empty", "timeout", "truncated", "refused", "skipped", "cached", "retry", "retried"}
)
#: Words of a key whose values are shares, from 0 to 1 or in percent.
_SHARES = frozenset(
    {"accuracy", "acc", "correctness", "precision", "recall", "f1", "em", "rate", "match"}
    | {"percent", "percentage", "pct"}
)
#: Fewest words of a prompt under the key of a group.
PROMPT_WORDS = 4
#: Highest value of a share in percent.
_PERCENT = 100
#: Length of a text that is more than an answer which was taken out of it.
LONG = 80
#: Words of a key under which a model's text stands.
_MODEL_WORDS = frozenset(
    {"model", "llm", "prediction", "predictions", "pred", "predict", "predicted", "generate", "generated"}
    | {"sampled"}
)
#: Words of a key under which a list of objects is what a policy did or planned.
_PLANS = frozenset({"plan", "plans", "steps", "trajectory", "actions", "itinerary", "schedule", "workflow"})
#: Words of a key whose text was taken out of a response.
_EXTRACTED = frozenset({"prediction", "predictions", "pred", "parsed", "extracted", "norm"})


def is_or_ends(name: str, names: Collection[str]) -> bool:
    """Return True if a key, or the end of its last part, is one of the names."""
    words = name.rpartition(".")[2].split("_")
    return name in names or any("_".join(words[at:]) in names for at in range(1, len(words) - 1))


def is_extracted(key: str) -> bool:
    """Return True if a key says that its text was taken out of a response."""
    return not _EXTRACTED.isdisjoint(plain_name(key).replace(".", "_").split("_"))


def key_says_model(key: str) -> bool:
    """Return True if a key says that a model wrote the text under it."""
    return not _MODEL_WORDS.isdisjoint(plain_name(key).replace(".", "_").split("_"))


def is_beside(key: str, other: str) -> bool:
    """Return True for two keys of the same object inside of a record."""
    return "." in key and key.rpartition(".")[0] == other.rpartition(".")[0]


def written_values(values: list[Any]) -> list[Any]:
    """Return the values without blank texts, if a third of them are not blank: a response may be blank."""
    written = [value for value in values if not (isinstance(value, str) and not value.strip())]
    return written if 3 * len(written) >= len(values) else values


def are_short(values: list[Any]) -> bool:
    """Return True for numbers and short texts, as they are taken out of a response."""
    return all(isinstance(value, (str, int, float)) and len(str(value)) <= LONG // 2 for value in values)


def is_against(key: str) -> bool:
    """Return True for a key whose truth says that something went wrong, such as ``failed``."""
    return not _AGAINST.isdisjoint(plain_name(key).replace(".", "_").split("_"))


def is_in_percent(column: KeyValues) -> bool:
    """Return True for shares of which some are above 1 and none above 100."""
    words = plain_name(column.key).replace(".", "_").split("_")
    numbers = [number for value in column.values for number in content.numbers_of(value)]
    is_share = "%" in column.key or not _SHARES.isdisjoint(words)
    return is_share and bool(numbers) and min(numbers) >= 0 and 1 < max(numbers) <= _PERCENT


def item_count(value: Any) -> int:
    """Return the number of samples that a value belongs to."""
    return len(content.items_of(value))


def counts_records(column: KeyValues) -> bool:
    """Return True for a number that rises by one from record to record."""
    numbers = [content.as_number(value) for value in column.values]
    return content.is_counter([number for number in numbers if number is not None])


def is_like_reward(column: KeyValues) -> bool:
    """Return True for differing small numbers under a key that does not name an id, a length or a time."""
    words = set(plain_name(column.key).replace(".", "_").split("_"))
    numbers = [number for value in column.values for number in content.numbers_of(value)]
    kinds = set(numbers)
    if is_against(column.key):
        return False
    is_small = all(abs(number) <= 100 for number in numbers) and len(kinds) > 1
    if all(isinstance(value, bool) for value in column.values):
        words.discard("level")
    if len(kinds) > 2 and all(number >= 0 and number.is_integer() for number in kinds):
        return False  # the number of a choice or a class
    return is_small and "." not in column.key and not words & _NOT_REWARDS and not content.is_counter(numbers)


def is_like_parts(value: Any) -> bool:
    """Return True for an object of numbers of which some may be rewards: not only tokens, steps and costs."""
    return content.is_parts(value) and not all(
        _NOT_REWARDS & set(plain_name(key).split("_")) for key in value
    )


def is_transcript(column: KeyValues) -> bool:
    """Return True for texts under a conversation's name, which are not messages: the response."""
    return all(isinstance(value, str) and len(value.split()) >= PROMPT_WORDS for value in column.values) and (
        not is_like_messages(column)
    )


def is_plan(column: KeyValues) -> bool:
    """Return True for lists of objects under a key that says that they are what a policy did or planned."""
    words = set(plain_name(column.key).replace(".", "_").split("_"))
    return (
        not words.isdisjoint(_PLANS)
        and "." not in column.key
        and all(
            isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            for value in column.values
        )
        and not is_like_messages(column)
    )


def is_like_messages(column: KeyValues) -> bool:
    """Return True if all values are conversations."""
    return content.share(content.is_conversation, column.values) == 1.0


def is_answered(column: KeyValues) -> bool:
    """Return True if all values are conversations, and the policy speaks in most of them."""
    return is_like_messages(column) and content.share(content.holds_answer, column.values) > 0.5


def is_unanswered(column: KeyValues) -> bool:
    """Return True if all values are conversations without an answer."""
    return is_like_messages(column) and not is_answered(column)
