"""All kinds of broken runs; importing the modules registers them."""

from __future__ import annotations

from tests.bench.broken_runs import (
    advantage_breakages,  # noqa: F401
    length_breakages,  # noqa: F401
    policy_breakages,  # noqa: F401
    rank_breakages,  # noqa: F401
    reward_breakages,  # noqa: F401
    text_breakages,  # noqa: F401
)
from tests.bench.broken_runs.breakage import KINDS, Breakage, Truth, broken_run

__all__ = ["KINDS", "Breakage", "Truth", "broken_run"]
