"""The table of a gate: whether a new run is worse than the spread of its baselines allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

if TYPE_CHECKING:
    from rlpanel.gate.gate_result import GateResult


# -- gate ----------------------------------------------------------------------------------------------
# The table of a gate: whether a new run is worse than the spread of its baselines allows.


Baselines = Annotated[
    Sequence[RunData],
    Option("Folders of the baselines.", "Names of the baselines, as the tool runs lists them.", chars=20),
]
On = Annotated[
    Sequence[str] | None,
    Option(
        "Numbers, separated by commas: reward, valid_reward, length, kl, mismatch, tool_errors, or columns.",
        "Numbers: reward, valid_reward, length, kl, mismatch, tool_errors, or columns.",
        chars=20,
        default="",
        shown_default="the named ones that a run logs",
    ),
]
Windows = Annotated[int, Option("Number of windows over the common range.", min=1, max=100)]
Align = Annotated[
    Literal["step", "samples", "tokens"], Option("What the runs are aligned by: step, samples or tokens.")
]


@question(
    description="Numbers of a new run against the spread of its baselines: worse ones first.",
    columns=(
        TableColumn("number", "text", "Name of the number, as it was asked for."),
        TableColumn("state", "text", "worse, passed, or cannot tell."),
        TableColumn("sentence", "text", "What was found, or why it cannot be told."),
        TableColumn("column", "text", "The column that was compared."),
        TableColumn("worse_if", "text", "lower, higher, or either: it has no good direction."),
        TableColumn("scale", "text", "level, or log: differences are those of logarithms."),
        TableColumn("over", "text", "Windows of the test with the smallest p: whole or end."),
        TableColumn("new", "number", "Mean of the new run over these windows."),
        TableColumn("baselines", "number", "Mean of the baselines over these windows."),
        TableColumn("effect", "number", "New run minus baselines, in the scale."),
        TableColumn("error", "number", "Standard error of the effect, in the scale."),
        TableColumn("degrees", "integer", "Degrees of freedom of the test; 0 with one baseline."),
        TableColumn("p", "number", "Chance of such a worsening without a change, corrected by Holm."),
        TableColumn(
            "detectable", "number", "Worsening of the whole range found with a chance of 80 %, in the scale."
        ),
        TableColumn("detectable_end", "number", "The same for a worsening of the end only."),
        TableColumn("first_window", "integer", "First window outside of the spread, from 1."),
        TableColumn("first_step", "integer", "Step of the new run at which the worsening begins."),
        TableColumn(
            "windows", "objects", "Each window: first and last step, new, baselines, low and high limit."
        ),
        TableColumn("samples", "objects", "Samples that show it: uid, step, value, the baselines' mean."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("against", "texts", "Names of the baselines."),
        TableColumn("state", "text", "worse, cannot tell, or passed."),
        TableColumn("sentence", "text", "The verdict."),
        TableColumn("align", "text", "What the runs are aligned by."),
        TableColumn("low", "number", "Begin of the common range."),
        TableColumn("high", "number", "End of the common range."),
        TableColumn("steps", "integer", "Steps of the new run in the common range."),
        TableColumn("windows", "integer", "Number of windows."),
        TableColumn("tests", "integer", "Number of tests that the chances are corrected for."),
        TableColumn("notes", "texts", "What the comparison leaves out or depends on."),
    ),
    frame=(
        *("number", "state", "over", "new", "baselines", "effect", "error", "p", "detectable"),
        *("first_window", "first_step", "sentence"),
    ),
    has_relation=False,
    has_split=False,
    agents="Is a run worse than the spread of its baselines allows? Needs two baselines or more to prove it.",
)
def gate(
    run: RunData,
    against: Baselines,
    *,
    on: On = None,
    windows: Windows = 10,
    align: Align = "step",
) -> Table:
    """Return whether a run is worse than the spread of its baselines allows, number by number.

    Parameters
    ----------
    run : RunData
    against : sequence of RunData
        The baselines: runs with the same settings and other seeds.
    on : sequence of str, optional
        Numbers; by default reward, valid_reward, length, kl, mismatch and tool_errors, if a run logs them.
    windows : int
        Number of windows over the common range.
    align : str
        What the runs are aligned by: ``step``, ``samples`` or ``tokens``.

    Raises
    ------
    SettingError
        If no run logs a number of this name, or no baseline is given.
    """
    return gate_table(run, gate_result(run, against, on, windows, align))


def gate_result(
    run: RunData,
    against: Sequence[RunData],
    on: Sequence[str] | None = None,
    windows: int = 10,
    align: str = "step",
) -> GateResult:
    """Return the result that the table is made of; parameters and errors are those of `gate`."""
    from rlpanel.analysis.run_comparison import ComparedRun
    from rlpanel.errors import SettingError
    from rlpanel.gate.compare_to_baselines import compare_to_baselines

    if not against:
        raise SettingError("give at least one baseline")
    new, *baselines = (ComparedRun(each.index, each.view) for each in (run, *against))
    return compare_to_baselines(new, baselines, on or None, windows, align)


def gate_table(run: RunData, found: GateResult) -> Table:
    """Return the result of a gate as a table."""
    about = {
        "run": found.run,
        "split": run.snapshot.split,
        "against": list(found.against),
        "state": found.state,
        "sentence": found.sentence,
        "align": found.align,
        "low": found.low,
        "high": found.high,
        "steps": found.steps,
        "windows": found.windows,
        "tests": found.tests,
        "notes": list(found.notes),
    }
    return gate.table([each.as_dict() for each in found.numbers], about=about)
