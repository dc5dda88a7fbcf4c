"""Exports the comparison of two runs: one row per prompt."""

from __future__ import annotations

import pandas as pd

from rlpanel.panels.compare.comparison_notes import comparison_notes
from rlpanel.panels.compare.run_comparison import MOST_READ, Prompts, RunComparison
from rlpanel.panels.compare.runs_summary import win_rate_text
from rlpanel.panels.export.card_export import CardExport, file_name


def comparison_export(comparison: RunComparison, prompts: Prompts, labels: tuple[str, str]) -> CardExport:
    """Return the export of the histogram of differences.

    Parameters
    ----------
    comparison : RunComparison
    prompts : Prompts
        Reads the prompts on the thread that builds the table.
    labels : tuple of str
        Names of the selected run and of the other run.
    """
    here, there = labels
    notes = comparison_notes(
        comparison.reward, comparison.pairs, (comparison.here.at, comparison.there.at), labels
    )
    sentences = [f"{len(comparison.pairs):,} prompts.", f"{comparison.how}.", *(note.text for note in notes)]
    return CardExport(
        name=f"{file_name(here)}-against-{file_name(there)}",
        title=f"Reward of {here} minus reward of {there}, per prompt",
        words=" ".join([*sentences, win_rate_text(comparison.rate)]).strip(),
        rows=lambda: pairs_frame(comparison, prompts),
        legend=(("won", "good"), ("tied", "muted"), ("lost", "bad")),
    )


def pairs_frame(comparison: RunComparison, prompts: Prompts) -> pd.DataFrame:
    """Return one row per prompt, by ascending difference; ``against_`` marks columns of the other run.

    Rewards are the compared number. Each ``uid`` is the sample that represents the prompt. Prompts by which a
    best step was chosen are not ``in_win_rate``. The prompt texts are left out if there are more
    than `MOST_READ`.
    """
    pairs, columns = comparison.pairs, dict[str, object]()
    sides = ((comparison.here, pairs.here, ""), (comparison.there, pairs.there, "against_"))
    for run, side, prefix in sides:
        numbers = {"reward": side.reward, "samples": side.samples, "step": side.step}
        columns |= {f"{prefix}{name}": values for name, values in numbers.items()}
        columns[f"{prefix}uid"] = run.snapshot.uids(side.row)
    columns["difference"] = pairs.difference
    columns["in_win_rate"] = pairs.held_out
    if len(pairs) <= MOST_READ:
        columns["prompt"] = [prompts.text(comparison.here, row) for row in pairs.here.row.tolist()]
    return pd.DataFrame(columns).sort_values("difference", kind="stable", ignore_index=True)
