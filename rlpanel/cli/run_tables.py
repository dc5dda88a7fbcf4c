"""The commands ``runs | steps | groups | prompts | tokens``: tables of a root or a run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli import completion
from rlpanel.cli.shared_options import (
    By,
    CountBy,
    FilterBy,
    Limit,
    Offset,
    OneStep,
    Step,
    counted,
    names,
    none_if_zero,
)
from rlpanel.cli.table_command import root_command, run_command

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.tables.table import Table


class PromptChoice(StrEnum):
    """Which prompts are listed."""

    UNSOLVED = "unsolved"
    VARIABLE = "variable"


@root_command
def runs(
    root: Annotated[
        str,
        typer.Argument(
            help="Folder that holds runs, at any depth.", metavar="ROOT", autocompletion=completion.runs
        ),
    ] = ".",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Table:
    """List the runs below a folder, the newest first, with their last reward and its trend."""
    from rlpanel.cli.serving import warn_without_runs
    from rlpanel.sources.files.file_access import path_of
    from rlpanel.tables.run_rows import runs as runs_table

    table = runs_table(root, limit=none_if_zero(limit), offset=offset)
    if not table.total:
        warn_without_runs(path_of(root))
    return table


@run_command
def steps(
    run: Run,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns, separated by commas; * for all of them.",
            show_default="those most used",
            autocompletion=completion.step_columns,
        ),
    ] = "",
    last: Annotated[int, typer.Option(min=0, help="Number of steps, the newest ones; 0 for all.")] = 20,
    step: Step = None,
    by: By = CountBy.EPISODES,
) -> Table:
    """Print the steps of a run: means, other statistics and step metrics."""
    from rlpanel.tables.step_rows import steps as steps_table

    return steps_table(counted(run, by), columns=names(columns), last=none_if_zero(last), step=step)


@run_command
def groups(
    run: Run,
    step: OneStep = None,
    sort: Annotated[
        str, typer.Option(help="Column to sort by; a leading - sorts descending (--sort=-reward_std).")
    ] = "",
    limit: Limit = 20,
    offset: Offset = 0,
    by: By = CountBy.EPISODES,
) -> Table:
    """Print the groups of a step: the samples of one prompt, and whether their rewards differ."""
    from rlpanel.tables.group_rows import groups as groups_table

    return groups_table(counted(run, by), step, sort=sort, limit=none_if_zero(limit), offset=offset)


@run_command
def prompts(
    run: Run,
    kind: Annotated[
        PromptChoice,
        typer.Option(help="unsolved: rewards never exceeded a target; variable: rewards differ most."),
    ] = PromptChoice.UNSOLVED,
    least_steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Leave out prompts that fewer steps contain.",
            show_default="unsolved: 3, variable: 1",
        ),
    ] = None,
    limit: Limit = 20,
    offset: Offset = 0,
    by: By = CountBy.EPISODES,
) -> Table:
    """Print the prompts that remain unsolved, or those whose rewards vary most within a step."""
    from rlpanel.tables.prompt_rows import prompts as prompts_table

    return prompts_table(
        counted(run, by), kind.value, least_steps=least_steps, limit=none_if_zero(limit), offset=offset
    )


@run_command
def tokens(
    run: Run,
    step: OneStep = None,
    metric: Annotated[
        str,
        typer.Option(
            help="kl_k3, kl_k2, log_ratio, kl_rllb, surprisal or value_error.",
            show_default="the first one that the run has",
            autocompletion=completion.token_metrics,
        ),
    ] = "",
    filter: FilterBy = "",
    least: Annotated[int, typer.Option(min=1, help="Leave out tokens that occur less often.")] = 3,
    limit: Limit = 20,
    offset: Offset = 0,
) -> Table:
    """Print the tokens of a step with the highest mean KL, surprisal or value error."""
    from rlpanel.tables.token_rows import tokens as tokens_table

    return tokens_table(
        run, step, metric=metric or None, filter=filter, least=least, limit=none_if_zero(limit), offset=offset
    )


COMMANDS = {
    runs: "rlpanel runs runs",
    steps: "rlpanel steps runs/exp1 --columns reward_mean,kl_k3_mean --last 5",
    groups: "rlpanel groups runs/exp1 --step 20 --sort=-reward_std --limit 5",
    prompts: "rlpanel prompts runs/exp1 --kind variable --limit 5",
    tokens: "rlpanel tokens runs/exp1 --step 20 --metric kl_k3 --limit 5",
}
