"""The commands ``sample | tag | note``: one sample or its tokens, and the writing of tags and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli import completion
from rlpanel.cli.shared_options import Chars, TokenLimit, Uid, names, none_if_zero
from rlpanel.cli.table_command import run_command

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.queries.table import Table


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
    limit: TokenLimit = 0,
    offset: Annotated[int, typer.Option(min=0, help="Number of tokens, or of characters, to skip.")] = 0,
    chars: Chars = 0,
) -> Table:
    """Print one sample with its texts and numbers, or its tokens."""
    from rlpanel.queries.sample import sample, sample_tokens

    if tokens or metric:
        return sample_tokens(run.data, uid, metrics=names(metric), limit=none_if_zero(limit), offset=offset)
    return sample(run.data, uid, chars=none_if_zero(chars), start=offset)


@run_command
def tag(
    run: Run,
    uid: Uid,
    tag: Annotated[str, typer.Argument(help="The tag; an empty text removes it.", metavar="TAG")],
) -> Table:
    """Tag a sample, as on the board; every viewer of the run sees it."""
    from rlpanel.queries.notes import annotate

    return annotate(run.data, uid, tag=tag)


@run_command
def note(
    run: Run,
    uid: Uid,
    note: Annotated[str, typer.Argument(help="The note; an empty text removes it.", metavar="TEXT")],
) -> Table:
    """Write a note for a sample, as on the board; every viewer of the run sees it."""
    from rlpanel.queries.notes import annotate

    return annotate(run.data, uid, note=note)


COMMANDS = {
    sample: "rlpanel sample runs/exp1 rollout_data_rank_0.jsonl:0 --tokens --metric kl_k3 --limit 10",
    tag: "rlpanel tag runs/exp1 rollout_data_rank_0.jsonl:0 odd",
    note: 'rlpanel note runs/exp1 rollout_data_rank_0.jsonl:0 "ends in the middle of a word"',
}
