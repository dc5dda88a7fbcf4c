"""The question where one run leaves another: first step, what differs first, settings, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Against, Limit, Offset, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.divergence.parting import Parting
    from rlpanel.divergence.step_pairs import StepPairs

Align = Annotated[
    Literal["step", "samples", "tokens", "time"],
    Option("Axis on which the steps of both runs are paired."),
]


@question(
    description="Numbers in which a run leaves another beyond the noise of both, the earliest first.",
    columns=(
        TableColumn("name", "text", "The number, in plain English."),
        TableColumn("step", "integer", "First step of the first run with the difference."),
        TableColumn("against_step", "integer", "The step of the second run at the same place of the axis."),
        TableColumn("value", "number", "Mean of the first run over the affected steps."),
        TableColumn("against_value", "number", "The same of the second run."),
        TableColumn("difference", "number", "Second run minus first run."),
        TableColumn("error", "number", "Standard error of the difference; null if it is not known."),
        TableColumn("z", "number", "Difference in standard errors; a million without any noise."),
        TableColumn("from_start", "boolean", "True if the runs differ from their first common step on."),
        TableColumn("sudden", "boolean", "True if most of the difference appears within a few steps."),
        TableColumn("ongoing", "boolean", "True if the newest common steps differ."),
        TableColumn("by_prompt", "number", "Share of the steps that were compared prompt by prompt."),
        TableColumn("column", "text", "The sample column of the number; empty without one."),
        TableColumn("where", "text", "Filter expression for the samples that it counts; may be empty."),
    ),
    about=(
        TableColumn("run", "text", "Name of the first run."),
        TableColumn("against", "text", "Name of the second run."),
        SPLIT,
        TableColumn("align", "text", "Axis on which steps are paired."),
        TableColumn("sentence", "text", "The result."),
        TableColumn("first_step", "integer", "First step of the second run that differs; null if none does."),
        TableColumn("common_steps", "integer", "Number of pairs of steps."),
        TableColumn("tested", "integer", "Number of numbers that were tested."),
        TableColumn("only_one", "texts", "Numbers that only one run has; they are not compared.", most=20),
        TableColumn("caveats", "texts", "What cannot be claimed, and why."),
        TableColumn(
            "settings", "objects", "Settings that differ: name, values, in_run, in_against, file.",
            most=50,
        ),
        TableColumn("settings_known", "boolean", "Whether both folders hold a configuration."),
        TableColumn("hidden", "integer", "Settings that may be secrets; they are not compared."),
        TableColumn(
            "samples",
            "objects",
            "Samples that show the first number that samples have: uid, against_uid, steps, values.",
        ),
        TableColumn("samples_show", "text", "Name of the number that the samples show."),
        TableColumn(
            "detectable", "objects", "Smallest lasting difference that 80 of 100 such runs would show."
        ),
    ),
    has_relation=False,
    has_split=False,
    example="rlpanel diverge runs/exp1 runs/exp2",
    agents="Name the first step at which a run leaves another beyond noise, what differs first, the settings "
    "that differ, and samples.",
)  # fmt: skip
def diverge(
    run: RunData, against: Against, *, align: Align = "step", limit: Limit = None, offset: Offset = 0
) -> Table:
    """Return the numbers in which the second run leaves the first, the earliest first.

    Parameters
    ----------
    run, against : RunData
    align : {"step", "samples", "tokens", "time"}
        Axis on which the steps of both runs are paired.
    limit : int, optional
        Maximum number of rows; all by default.
    offset : int
        Number of rows to skip.

    Raises
    ------
    SettingError
        If a run does not log what the axis needs.
    """
    from rlpanel.divergence.run_divergence import ComparedSide, find_divergence, sentence

    sides = ComparedSide(run.index, run.view), ComparedSide(against.index, against.view)
    *_, found = find_divergence(*sides, align)
    pairs = found.pairs
    assert pairs is not None
    about: dict[str, Any] = {
        "run": run.name,
        "against": against.name,
        "split": run.snapshot.split,
        "align": align,
        "sentence": sentence(found),
        "first_step": int(pairs.first_there[found.partings[0].onset]) if found.partings else None,
        "common_steps": len(pairs),
        "tested": found.tested,
        "only_one": list(found.only_one),
        "caveats": [str(each) for each in found.caveats],
        "settings": [
            {
                "name": each.name, "value": each.here, "against_value": each.there,
                "in_run": each.in_here, "in_against": each.in_there, "file": each.file,
            }
            for each in found.settings
        ],
        "settings_known": all(found.has_settings),
        "hidden": found.hidden,
        "samples": [vars(each) for each in found.samples],
        "samples_show": found.shown,
        "detectable": [vars(each) for each in found.powers],
    }  # fmt: skip
    rows = [_row(each, pairs) for each in page(found.partings, offset, limit)]
    return diverge.table(rows, total=len(found.partings), offset=offset, about=about)


def _row(parting: Parting, pairs: StepPairs) -> dict[str, object]:
    stream = parting.stream
    return {
        "name": stream.stream.name,
        "step": int(pairs.first_here[parting.onset]),
        "against_step": int(pairs.first_there[parting.onset]),
        "value": parting.here,
        "against_value": parting.there,
        "difference": parting.difference,
        "error": parting.error,
        "z": parting.z,
        "from_start": parting.from_start,
        "sudden": parting.sudden,
        "ongoing": parting.ongoing,
        "by_prompt": float(stream.by_prompt.mean()),
        "column": stream.stream.column,
        "where": stream.stream.where,
    }
