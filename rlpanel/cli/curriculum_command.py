"""The command ``curriculum``: writes prompts of some classes to a file for the next training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlpanel.cli.shared_options import (
    DefaultStep,
    FollowLinks,
    Jobs,
    Map,
    RunFolder,
    SplitOption,
    say_left_out,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.terminal_messages import INCOMPLETE, say
from rlpanel.errors import SettingError


def curriculum(
    run: RunFolder,
    out: Annotated[str, typer.Argument(help="File to write, as JSON lines.")],
    classes: Annotated[
        str,
        typer.Option(
            help="Classes, separated by commas: learnt, forgotten, flickers, never, always, steady, seldom."
        ),
    ] = "never,always",
    drop: Annotated[bool, typer.Option("--drop", help="Give the prompts weight 0; the default.")] = False,
    repeat: Annotated[
        int, typer.Option(min=0, max=1000, help="Give the prompts this weight: how often each is repeated.")
    ] = 0,
    least_steps: Annotated[int, typer.Option(min=1, help="Prompts with fewer visits are seldom.")] = 3,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    split: SplitOption = "",
    jobs: Jobs = None,
    keys: Map = None,
    default_step: DefaultStep = None,
    follow_links: FollowLinks = False,
) -> None:
    """Write the prompts of some classes to a curriculum file, and print what they cost so far.

    Each line has prompt_key, prompt_id, prompt, class and weight: 0 drops the prompt, N repeats it N times.
    """
    if drop and repeat:
        raise SettingError("--drop and --repeat exclude each other")
    set_reader_environment(keys, None, follow_links, default_step)
    from rlpanel.api.open_run import open_run
    from rlpanel.store.query.curriculum import checked_classes, curriculum_effect, curriculum_lines
    from rlpanel.store.snapshot.left_out import left_out
    from rlpanel.store.snapshot.prompt_classes import costs_of_prompts
    from rlpanel.store.snapshot.prompt_grid import prompt_grid

    wanted, path = checked_classes([name.strip() for name in classes.split(",") if name.strip()]), Path(out)
    if path.exists() and not force:
        raise SettingError(f"{out} exists; --force replaces it")
    with open_run(run, follow=False, jobs=jobs) as opened:
        read = opened.split(split) if split else opened
        costs = costs_of_prompts(read.snapshot, prompt_grid(read.snapshot), least_steps)
        chosen, without = costs.of(wanted), 0
        try:
            with path.open("wb") as file:
                for lines, missing in curriculum_lines(read.index, read.snapshot, costs, chosen, repeat):
                    file.write(lines)
                    without += missing
        except OSError as error:
            raise SettingError(f"{out} cannot be written: {error.strerror}") from error
        effect, unread = curriculum_effect(costs, chosen), opened.snapshot.unread
        left = left_out(read.snapshot)
    typer.echo(f"{effect.prompts:,} of {len(costs.grid):,} prompts to {out}, weight {repeat}")
    typer.echo(effect.sentence(repeat))
    for each in costs.missing():
        say(f"not known: {each}", typer.colors.YELLOW)
    if without:
        say(
            f"{without:,} prompts have no text: it is not logged, or their lines have changed",
            typer.colors.YELLOW,
        )
    say_left_out(left)
    say_unread(unread)
    if unread:
        raise typer.Exit(INCOMPLETE)


#: The command and an example of its use.
COMMANDS = {curriculum: "rlpanel curriculum runs/exp1 easy.jsonl --classes always --drop"}
