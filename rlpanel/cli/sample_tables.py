"""The commands ``samples | sample | search | notes | tag | note``: samples, their texts and their notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli import completion
from rlpanel.cli.shared_options import (
    Chars,
    FilterBy,
    Limit,
    Offset,
    Sort,
    Step,
    Text,
    Uid,
    names,
    none_if_zero,
)
from rlpanel.cli.table_command import run_command

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.tables.table import Table


@run_command
def samples(
    run: Run,
    filter: FilterBy = "",
    step: Step = None,
    sort: Sort = "",
    limit: Limit = 20,
    offset: Offset = 0,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns, separated by commas; * for all of them.",
            show_default="those most used",
            autocompletion=completion.sample_columns,
        ),
    ] = "",
    text: Text = False,
    chars: Chars = 0,
) -> Table:
    """Print the samples that pass a filter, sorted by a column."""
    from rlpanel.tables.sample_rows import samples as samples_table
    from rlpanel.texts.shorten import TextLimit

    return samples_table(
        run, filter=filter, step=step, sort=sort, limit=none_if_zero(limit), offset=offset,
        columns=names(columns), text=text, limits=TextLimit(none_if_zero(chars)),
    )  # fmt: skip


@run_command
def sample(
    run: Run,
    uid: Uid,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print the response's tokens with their metrics instead.")
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            help="Token metrics, separated by commas, with --tokens.",
            show_default="all",
            autocompletion=completion.token_metrics,
        ),
    ] = "",
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of tokens; 0 for all.")] = 0,
    offset: Annotated[int, typer.Option(min=0, help="Number of tokens, or of characters, to skip.")] = 0,
    chars: Chars = 0,
) -> Table:
    """Print one sample with its texts and numbers, or its tokens."""
    from rlpanel.tables import one_sample
    from rlpanel.texts.shorten import TextLimit

    if tokens or metric:
        return one_sample.sample_tokens(
            run, uid, metrics=names(metric), limit=none_if_zero(limit), offset=offset
        )
    return one_sample.sample(run, uid, limits=TextLimit(none_if_zero(chars), offset))


@run_command
def search(
    run: Run,
    text: Annotated[
        str, typer.Argument(help="Text to find, or a regular expression /like this/.", metavar="TEXT")
    ],
    filter: FilterBy = "",
    step: Step = None,
    sort: Sort = "",
    limit: Limit = 20,
    offset: Offset = 0,
    around: Annotated[int, typer.Option(min=0, help="Characters before and after the place.")] = 40,
    everything: Annotated[
        bool, typer.Option("--all", help="Search all samples and count those found.")
    ] = False,
) -> Table:
    """Find a text in prompts and responses, ignoring case, and print the places, the newest steps first.

    The search stops when more samples are found than are printed, unless --all, --sort or --limit 0 is given.
    """
    from rlpanel.tables.search_rows import search as search_table

    return search_table(
        run, text, filter=filter, step=step, sort=sort, limit=none_if_zero(limit), offset=offset,
        around=around, everything=everything,
    )  # fmt: skip


@run_command
def notes(run: Run, limit: Limit = 20, offset: Offset = 0) -> Table:
    """Print the tags and notes of a run's samples, the newest first."""
    from rlpanel.tables.note_rows import notes as notes_table

    return notes_table(run, limit=none_if_zero(limit), offset=offset)


@run_command
def tag(
    run: Run,
    uid: Uid,
    tag: Annotated[str, typer.Argument(help="The tag; an empty text removes it.", metavar="TAG")],
) -> Table:
    """Tag a sample, as on the board; every viewer of the run sees it."""
    from rlpanel.tables.note_rows import annotate

    return annotate(run, uid, tag=tag)


@run_command
def note(
    run: Run,
    uid: Uid,
    note: Annotated[str, typer.Argument(help="The note; an empty text removes it.", metavar="TEXT")],
) -> Table:
    """Write a note for a sample, as on the board; every viewer of the run sees it."""
    from rlpanel.tables.note_rows import annotate

    return annotate(run, uid, note=note)


COMMANDS = {
    samples: 'rlpanel samples runs/exp1 --filter "reward < 1" --step 20 --sort=-kl_k3_mean --limit 5',
    sample: "rlpanel sample runs/exp1 rollout_data_rank_0.jsonl:0 --tokens --metric kl_k3 --limit 10",
    search: 'rlpanel search runs/exp1 "the" --step 20 --limit 5',
    tag: "rlpanel tag runs/exp1 rollout_data_rank_0.jsonl:0 odd",
    note: 'rlpanel note runs/exp1 rollout_data_rank_0.jsonl:0 "ends in the middle of a word"',
    notes: "rlpanel notes runs/exp1",
}
