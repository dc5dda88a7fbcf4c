"""Two runs on the same prompts, as a file: a row a prompt."""

from __future__ import annotations

import pandas as pd

from rlpanel.metrics.win_rate import win_rate_of
from rlpanel.panels.compare.prompt_matching import MOST_READ, Prompts, RunComparison
from rlpanel.panels.compare.runs_summary import win_rate_text
from rlpanel.panels.export.card_export import CardExport, file_name


def comparison_export(found: RunComparison, prompts: Prompts, labels: tuple[str, str]) -> CardExport:
    """What the differences' plot shows.

    Parameters
    ----------
    found : RunComparison
    prompts : Prompts
        Reads the prompts, on the thread that makes the table.
    labels : tuple of str
        The names of the run and of the other.
    """
    here, there = labels
    words = win_rate_text(win_rate_of(found.pairs.difference))
    return CardExport(
        name=f"{file_name(here)}-against-{file_name(there)}",
        title=f"Reward of {here} less that of {there}, prompt by prompt",
        words=f"{len(found.pairs):,} prompts, {found.how}; {words}",
        rows=lambda: pairs_frame(found, prompts),
        legend=(("won", "good"), ("tied", "muted"), ("lost", "bad")),
    )


def pairs_frame(found: RunComparison, prompts: Prompts) -> pd.DataFrame:
    """A row a prompt, those that lost most first; ``against_`` is the other run's, each uid a sample's.

    The prompts themselves are left out where there are too many to be read (see `MOST_READ`).
    """
    pairs, columns = found.pairs, dict[str, object]()
    for seat, side, prefix in ((found.here, pairs.here, ""), (found.there, pairs.there, "against_")):
        numbers = {"reward": side.reward, "samples": side.samples, "step": side.step}
        columns |= {f"{prefix}{name}": values for name, values in numbers.items()}
        columns[f"{prefix}uid"] = seat.snapshot.uids(side.row)
    columns["difference"] = pairs.difference
    if len(pairs) <= MOST_READ:
        columns["prompt"] = [prompts.text(found.here, row) for row in pairs.here.row.tolist()]
    return pd.DataFrame(columns).sort_values("difference", kind="stable", ignore_index=True)
