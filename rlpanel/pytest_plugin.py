"""Fixture ``rlpanel_gate`` for pytest: a training run as a test against its baselines.

It is pytest's entry point, so it imports nothing but pytest before a test uses the fixture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from rlpanel.queries.table import Table

RunPath = str | os.PathLike[str]


@pytest.fixture(scope="session")
def rlpanel_gate() -> Callable[..., Table]:
    """Return a function that fails the test if a run is worse than the spread of its baselines allows.

    It is called as ``rlpanel_gate(new, [a, b, c], on=["reward"])`` and returns the table ``gate``. See
    `gate_or_fail` for its parameters.
    """
    return gate_or_fail


def gate_or_fail(
    new: RunPath,
    against: Sequence[RunPath],
    *,
    on: Sequence[str] | None = None,
    windows: int = 10,
    align: str = "step",
    cannot_tell: Literal["skip", "fail", "pass"] = "skip",
) -> Table:
    """Compare a run with baselines; fail the test if it is worse, or if one of their files was not read.

    Parameters
    ----------
    new : path
        Folder of the new run.
    against : sequence of path
        Folders of the baselines.
    on : sequence of str, optional
        Numbers; by default those that a run logs.
    windows : int
    align : {"step", "samples", "tokens"}
    cannot_tell : {"skip", "fail", "pass"}
        What happens if the data do not show whether the run is worse.

    Returns
    -------
    Table
        The table ``gate``.
    """
    from contextlib import ExitStack

    from rlpanel.api.open_run import open_run
    from rlpanel.queries.gate import gate

    __tracebackhide__ = True
    with ExitStack() as stack:
        opened = [stack.enter_context(open_run(path, follow=False)) for path in (new, *against)]
        run, *others = (each.data for each in opened)
        table = gate(run, others, on=on, windows=windows, align=align)  # type: ignore[arg-type]
        unread = [f"not read: {each.file}: {each.reason}" for run in opened for each in run.snapshot.unread]
    said = "\n".join([str(table.about["sentence"]), *_sentences(table), *unread])
    state = table.about["state"]
    if state == "worse" or unread or (state == "cannot tell" and cannot_tell == "fail"):
        pytest.fail(said, pytrace=False)
    if state == "cannot tell" and cannot_tell == "skip":
        pytest.skip(said)
    return table


def _sentences(table: Table) -> list[str]:
    rows: Sequence[dict[str, Any]] = table.rows
    return [str(row["sentence"]) for row in rows if row["state"] != "passed"]
