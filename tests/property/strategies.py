"""Logs as hypothesis makes them up: good lines, odd lines, broken lines, and how they reach the disk."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import strategies as st

finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))
logprob = st.floats(-30, 0).map(lambda x: round(x, 6))
#: Numbers as logs hold them: nulls, NaN and infinities among them.
number = st.one_of(
    finite, st.integers(-1000, 1000), st.none(), st.sampled_from([math.nan, math.inf, -math.inf])
)
text = st.text(max_size=20)
#: A few texts that break naive readers.
hostile = st.sampled_from(["\u2028", "\x85", "<script>", "🙂", "\ud800", "\0", "ĠåĽ½", '"\\', "\ufeff", ""])
words = st.one_of(text, hostile)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Token fields that mostly fit together, and now and then do not."""
    size = draw(st.integers(0, 6))
    found: dict[str, Any] = {}
    for name in draw(
        st.sets(st.sampled_from(["logprobs", "ref_logprobs", "values", "token_rewards", "entropy"]))
    ):
        length = draw(st.sampled_from([size, size, size, size, max(0, size - 1)]))
        values = draw(st.lists(logprob, min_size=length, max_size=length))
        found[name] = draw(
            st.sampled_from([values, values, values, [*values[:-1], None], [*values[:-1], math.nan]])
        )
    if draw(st.booleans()):
        found["response_tokens"] = draw(st.lists(words, min_size=size, max_size=size))
    if draw(st.integers(0, 4)) == 0:
        found["loss_mask"] = draw(
            st.lists(st.sampled_from([0, 1, True, False]), min_size=size, max_size=size)
        )
    return found


@st.composite
def samples(draw: st.DrawFn, own_rank: bool = True) -> dict[str, Any]:
    """One good sample: any optional field may be absent, null or odd; ``own_rank`` lets it tell its rank."""
    step = draw(st.integers(0, 4))
    row: dict[str, Any] = {"step": draw(st.sampled_from([step, step, float(step), str(step)]))}
    row[draw(st.sampled_from(["prompt", "response"]))] = draw(words)
    for name in draw(st.sets(st.sampled_from(["reward", "ref_reward", "valid_reward", "mine", "rewards"]))):
        row[name] = draw(number) if name != "rewards" else {"a": draw(number), "b": draw(finite)}
    if draw(st.booleans()):
        row["group"] = draw(st.one_of(st.integers(0, 3), st.text(max_size=4)))
    if draw(st.integers(0, 2)) == 0:
        row["split"] = draw(st.sampled_from(["train", "eval", "eval", "test", None]))
    if own_rank and draw(st.integers(0, 5)) == 0:
        row["rank"] = draw(st.integers(0, 3))
    return row | draw(arrays())


def as_line(row: dict[str, Any]) -> bytes:
    """As Python's json writes it, escapes and NaN included."""
    return json.dumps(row).encode()


bad_line = st.sampled_from(
    [
        b"{torn",
        b"[1, 2]",
        b'{"step": 1}',
        b'{"prompt": "p"}',
        b'{"step": "x", "prompt": ""}',
        b"\xff\xfe",
        b"\0\0",
        b"7",
    ]
)
blank_line = st.sampled_from([b"", b" ", b"\t", b"\r"])


def lines(*, own_rank: bool = True) -> st.SearchStrategy[bytes]:
    """Good lines, and some that are not."""
    good = samples(own_rank).map(as_line)
    return st.one_of(good, good, good, bad_line, blank_line)


@st.composite
def logs(draw: st.DrawFn, line: st.SearchStrategy[bytes]) -> bytes:
    """Lines, some of them written again further on."""
    lines = draw(st.lists(line, max_size=10))
    if lines:
        lines += draw(st.lists(st.sampled_from(lines), max_size=4))
    return b"".join(part + b"\n" for part in lines) + draw(st.sampled_from([b"", b"", b"{half"]))


log = logs(lines())
#: A log whose file alone tells the rank.
log_of_a_rank = logs(lines(own_rank=False))


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """``data`` in pieces, cut anywhere."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=5)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@st.composite
def histories(
    draw: st.DrawFn, log: st.SearchStrategy[bytes] = log, most_ranks: int = 3
) -> tuple[dict[str, bytes], list[tuple[str, bytes]]]:
    """Logs by file name, and the appends that write them, the ranks mixed in any order."""
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
