"""Hypothesis strategies for logs: valid lines, odd lines, broken lines, and their writes to disk."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

#: For tests that read a whole run several times for each example: half as many in `make unit`.
dear = settings(max_examples=10 if settings().max_examples == 20 else settings().max_examples)

finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))
logprob = st.floats(-30, 0).map(lambda x: round(x, 6))
#: Numbers as in logs, including null, NaN and infinities.
number = st.one_of(
    finite, st.integers(-1000, 1000), st.none(), st.sampled_from([math.nan, math.inf, -math.inf])
)
text = st.text(max_size=20)
#: A few texts that break naive readers.
hostile = st.sampled_from(["\u2028", "\x85", "<script>", "🙂", "\ud800", "\0", "ĠåĽ½", '"\\', "\ufeff", ""])
words = st.one_of(text, hostile)


#: Strategies used below. Making one costs as much as drawing from it, so each is made once.
yes = st.booleans()
one_in_three, one_in_five, one_in_six = (st.integers(0, most) for most in (2, 4, 5))
array_names = st.sets(st.sampled_from(["logprobs", "ref_logprobs", "values", "token_rewards", "entropy"]))
array_size = st.integers(0, 6)
#: Differences of an array from one with the right length: usually none.
array_flaw = st.sampled_from(["", "", "", "null", "nan"])
shorter_by = st.sampled_from([0, 0, 0, 0, 1])
logprob_lists, word_lists, mask_lists = (
    [st.lists(element, min_size=size, max_size=size) for size in range(7)]
    for element in (logprob, words, st.sampled_from([0, 1, True, False]))
)
step_number = st.integers(0, 4)
step_form = st.sampled_from([int, int, float, str])
text_name = st.sampled_from(["prompt", "response"])
number_names = st.sets(st.sampled_from(["reward", "ref_reward", "valid_reward", "mine", "rewards"]))
group = st.one_of(st.integers(0, 3), st.text(max_size=4))
split = st.sampled_from(["train", "eval", "eval", "test", None])
own_ranks = st.integers(0, 3)
#: Sessions of recorders created in the milliseconds 1, 3, 3, 5 and 7; one of a forked child, one of others.
sessions = st.sampled_from(
    [
        *("00000000001-a", "00000000003-b", "00000000003-c", "00000000005-a", "00000000007-1"),
        *("00000000003-b-00000000004-d", "abc"),
    ]
)
#: Times of lines in seconds, before and after the recorders were created.
times = st.one_of(
    st.integers(0, 8).map(lambda ms: ms / 1000), st.sampled_from([None, math.nan, math.inf, 10.0])
)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Token fields that usually match each other, and sometimes do not."""
    size = draw(array_size)
    found: dict[str, Any] = {}
    for name in draw(array_names):
        values: list[Any] = draw(logprob_lists[max(0, size - draw(shorter_by))])
        flaw = draw(array_flaw)
        found[name] = [*values[:-1], None if flaw == "null" else math.nan] if flaw else values
    if draw(yes):
        found["response_tokens"] = draw(word_lists[size])
    if draw(one_in_five) == 0:
        found["loss_mask"] = draw(mask_lists[size])
    return found


@st.composite
def samples(draw: st.DrawFn, own_rank: bool = True) -> dict[str, Any]:
    """A valid sample; optional fields may be absent, null or odd, and ``own_rank`` allows a rank."""
    row: dict[str, Any] = {"step": draw(step_form)(draw(step_number))}
    row[draw(text_name)] = draw(words)
    for name in draw(number_names):
        row[name] = draw(number) if name != "rewards" else {"a": draw(number), "b": draw(finite)}
    if draw(yes):
        row["group"] = draw(group)
    if draw(one_in_three) == 0:
        row["split"] = draw(split)
    if own_rank and draw(one_in_six) == 0:
        row["rank"] = draw(own_ranks)
    if draw(yes):
        row |= {"session": draw(sessions), "time": draw(times)}
    return row | draw(arrays())


def as_line(row: dict[str, Any]) -> bytes:
    """Encode a row like Python's json, with escapes and NaN."""
    return json.dumps(row).encode()


bad_line = st.sampled_from(
    [
        b"{torn",
        b"[1, 2]",
        b'{"step": 1}',
        b'{"prompt": "p"}',
        b'{"step": "x", "prompt": ""}',
        b"\xff\xfa\xfe",  # two bytes ff fe would begin a file of UTF-16
        b"\0\0",
        b"7",
    ]
)
blank_line = st.sampled_from([b"", b" ", b"\t", b"\r"])


def lines(*, own_rank: bool = True) -> st.SearchStrategy[bytes]:
    """Valid lines, and some invalid ones."""
    good = samples(own_rank).map(as_line)
    return st.one_of(good, good, good, bad_line, blank_line)


@st.composite
def logs(draw: st.DrawFn, line: st.SearchStrategy[bytes]) -> bytes:
    """Lines, some of which are repeated later."""
    lines = draw(st.lists(line, max_size=10))
    if lines:
        lines += draw(st.lists(st.sampled_from(lines), max_size=4))
    return b"".join(part + b"\n" for part in lines) + draw(st.sampled_from([b"", b"", b"{half"]))


log = logs(lines())
#: A log whose rank is only in its file name.
log_of_a_rank = logs(lines(own_rank=False))


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """``data`` in pieces that end anywhere."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=5)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@st.composite
def histories(
    draw: st.DrawFn, log: st.SearchStrategy[bytes] = log, most_ranks: int = 3
) -> tuple[dict[str, bytes], list[tuple[str, bytes]]]:
    """Logs by file name, and the appends that write them, with the ranks in any order."""
    ranks = draw(st.integers(1, most_ranks))
    logs = {f"rollout_data_rank_{rank}.jsonl": draw(log) for rank in range(ranks)}
    waiting = {name: draw(cuts(data)) for name, data in logs.items()}
    appends = []
    while waiting:
        name = draw(st.sampled_from(sorted(waiting)))
        appends.append((name, waiting[name].pop(0)))
        if not waiting[name]:
            del waiting[name]
    return logs, appends
