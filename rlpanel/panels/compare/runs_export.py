"""Exports the comparison of two runs: one row per prompt."""

from __future__ import annotations

from rlpanel.analysis.run_comparison import Prompts, RunComparison, pairs_frame
from rlpanel.panels.compare.comparison_notes import comparison_notes
from rlpanel.panels.compare.runs_summary import win_rate_text
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.language.labels import tr


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
    sentences = [
        tr("{pairs:,} prompts.", pairs=len(comparison.pairs)),
        f"{comparison.how}.",
        *(note.text for note in notes),
    ]
    return CardExport(
        name=f"{file_name(here)}-against-{file_name(there)}",
        title=tr("Reward of {here} minus reward of {there}, per prompt", here=here, there=there),
        words=" ".join([*sentences, win_rate_text(comparison.rate)]).strip(),
        rows=lambda: pairs_frame(comparison, prompts),
        legend=(("won", "good"), ("tied", "muted"), ("lost", "bad")),
    )
