"""Memory grows with the number of rows, not with the number of bytes read."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.property.test_invariants import budgets, folder, follow

#: Allowed difference between two readings with equally many rows: some texts, some numbers in messages. A
#: single array of all tokens would be twice as large.
SLACK = 32 << 10


def log(rows: int, tokens: int) -> bytes:
    made = []
    for row in range(rows):
        logprobs = [-0.5 - row / 100] * tokens
        sample = {"step": row % 5, "prompt": "p" * tokens, "reward": row, "logprobs": logprobs}
        made.append(json.dumps(sample | {"response_tokens": ["word"] * tokens}).encode() + b"\n")
    return b"".join(made)


def held(data: bytes, budget: int) -> int:
    """Return the bytes that a run's index holds after the log is read: those that are freed with it."""
    with folder() as run:
        (Path(run) / "rollout_data_rank_0.jsonl").write_bytes(data)
        gc.freeze()  # only objects that are created from here on are searched for garbage
        tracemalloc.start()
        try:
            index = RunIndex(run, "run", Reading(turn_bytes=budget, cache=False))
            follow(index)
            with_index = _traced_bytes()
            del index
            return with_index - _traced_bytes()
        finally:
            tracemalloc.stop()


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@given(st.integers(8, 12), st.integers(1000, 1500), budgets)
def test_memory_does_not_grow_with_the_bytes_of_a_line(rows: int, tokens: int, budget: int) -> None:
    short, long = log(rows, 1), log(rows, tokens)
    assert held(long, budget) - held(short, budget) < SLACK
