"""The columns of samples and steps with unit and meaning: those that matter, or all that the run has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Every = Annotated[bool, Option("All columns; by default those that are looked at first.", flag="--all")]

#: Columns of samples and steps that are looked at first, if the run has them.
FIRST_OF_SAMPLES = (
    "group", "reward", "advantage", "response_tokens", "truncated", "kl_k3_mean", "surprisal_mean",
    "token_entropy_mean", "finish_reason", "status", "lang", "turns", "value_mean",
)  # fmt: skip
FIRST_OF_STEPS = (
    "reward_mean", "reward_std", "pass_at_1", "response_tokens_mean", "truncated_mean", "kl_k3_mean",
    "token_entropy_mean", "zero_variance_groups", "value_error", "loss", "grad_norm", "learning_rate",
)  # fmt: skip
_OF_ALL = (
    TableColumn("uid", "text", "The sample's identifier: file and byte offset."),
    TableColumn("step", "integer", "Policy update."),
    TableColumn("rank", "integer", "Process that wrote the sample."),
    TableColumn("line", "integer", "Line of the sample in its file, from 1."),
    TableColumn("prompt_key", "text", "Hash of the prompt, the same for equal prompts."),
    TableColumn("split", "text", "Split of the sample, such as train or eval."),
)


@question(
    name="columns",
    description="The columns of the tables samples and steps, with unit and meaning.",
    columns=(
        TableColumn("table", "text", "samples or steps."),
        TableColumn("column", "text", "Name of the column."),
        TableColumn("first", "boolean", "Whether it is one of those that are looked at first."),
        TableColumn("type", "text", "integer, number or text."),
        TableColumn("unit", "text", "Such as nats or tokens; empty if it has none."),
        TableColumn("meaning", "text", "One sentence, or the formula."),
    ),
    about=(RUN, TableColumn("all", "integer", "Number of all columns of both tables.")),
    relation=("table", "column", "first", "type", "unit", "meaning"),
    relation_options={"every": True},
    example="rlpanel columns runs/exp1",
    agents="List the columns of samples and steps that matter, with unit and meaning; every lists all.",
)
def column_list(run: RunData, *, every: Every = False) -> Table:
    """Return the columns of samples and steps with unit and meaning, those looked at first.

    Parameters
    ----------
    run : RunData
    every : bool
        All columns that the run has.
    """
    from rlpanel.queries.samples import sample_columns
    from rlpanel.queries.steps import steps

    of_samples = {column.name: column for column in _OF_ALL} | sample_columns(run.view)
    of_steps = {column.name: column for column in steps(run, every=True).columns if column.name != "complete"}
    rows = [
        *_rows("samples", of_samples, (*(column.name for column in _OF_ALL), *FIRST_OF_SAMPLES)),
        *_rows("steps", of_steps, ("step", "samples", *FIRST_OF_STEPS)),
    ]
    shown = [row for row in rows if every or row["first"]]
    return column_list.table(shown, about={"run": run.name, "all": len(rows)})


def _rows(table: str, columns: Mapping[str, TableColumn], first: Sequence[str]) -> list[dict[str, object]]:
    """Return a row for each column, those that are looked at first in front."""
    order = [name for name in first if name in columns]
    names = [*order, *(name for name in columns if name not in order)]
    return [
        {
            "table": table,
            "column": name,
            "first": name in order,
            "type": columns[name].type,
            "unit": columns[name].unit,
            "meaning": columns[name].description,
        }
        for name in names
    ]
