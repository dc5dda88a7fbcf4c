"""The table of the prompts that two runs have in common, with their rewards in both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlpanel.board_url import NEWEST
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Against, At, Limit, Offset, PromptChars, PromptText
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.analysis.run_comparison import Prompts, RunComparison
    from rlpanel.metrics.win_rate import Share
    from rlpanel.texts.shorten import TextLimit


@question(
    description="Prompts that two runs have in common, the largest loss of the first run first.",
    columns=(
        TableColumn("prompt", "text", "The prompt; null unless texts are read."),
        TableColumn("reward", "number", "Mean reward of the prompt's samples in the first run.", "reward"),
        TableColumn("against_reward", "number", "The same in the second run.", "reward"),
        TableColumn("difference", "number", "First run minus second run.", "reward"),
        TableColumn("samples", "integer", "Samples of the prompt in the first run."),
        TableColumn("against_samples", "integer", "Samples of the prompt in the second run."),
        TableColumn("step", "integer", "Step of these samples in the first run."),
        TableColumn("against_step", "integer", "Step of these samples in the second run."),
        TableColumn("uid", "text", "The sample of the first run whose reward is nearest to the mean."),
        TableColumn("against_uid", "text", "The same in the second run."),
        TableColumn("in_win_rate", "boolean", "False for prompts by which a best step was chosen."),
    ),
    about=(
        TableColumn("run", "text", "Name of the first run."),
        TableColumn("against", "text", "Name of the second run."),
        TableColumn("at", "text", "Samples of the first run: newest, first, best, a step or steps (10..20)."),
        TableColumn("against_at", "text", "The same for the second run."),
        TableColumn("matched", "text", "How prompts were matched."),
        TableColumn("compared", "text", "The number that is compared."),
        TableColumn("only_here", "integer", "Number of prompts that only the first run has."),
        TableColumn("only_there", "integer", "Number of prompts that only the second run has."),
        TableColumn(
            "won", "object", "Prompts that the first run won: count, of, share, and 95 % Wilson interval."
        ),
        TableColumn("tied", "object", "Prompts without a difference."),
        TableColumn("lost", "object", "Prompts that the first run lost."),
        TableColumn("mean_difference", "number", "Mean difference over the prompts.", "reward"),
        TableColumn("half_width", "number", "Half the width of its 95 % interval by Student's t.", "reward"),
    ),
    has_split=False,
    example="rlpanel compare runs/exp1 runs/exp2 --limit 5",
    agents="Compare two runs on the prompts that both have: won, tied, lost, and the prompts.",
)
def compare(
    run: RunData,
    against: Against,
    *,
    at: At = NEWEST,
    against_at: At = NEWEST,
    limit: Limit = None,
    offset: Offset = 0,
    text: PromptText = False,
    chars: PromptChars = None,
) -> Table:
    """Return the prompts that two runs have in common, the largest loss of the first run first.

    Parameters
    ----------
    run, against : RunData
    at, against_at : str
        Samples that represent a run: ``newest`` or ``first`` (each prompt's newest or first step), ``best``,
        a step's number, or two (``10..20``).
    limit : int, optional
        Maximum number of prompts; all by default.
    offset : int
        Number of prompts to skip.
    text : bool
        Read the texts of the returned prompts.
    chars : int, optional
        Maximum number of characters of each prompt.
    """
    import numpy as np

    from rlpanel.analysis.run_comparison import ComparedRun, Prompts, compare_runs
    from rlpanel.texts.prompt_parts import TextStyle
    from rlpanel.texts.shorten import TextLimit

    prompts = Prompts(TextStyle())
    sides = ComparedRun(run.index, run.view, at), ComparedRun(against.index, against.view, against_at)
    found = next(compare_runs(*sides, prompts))
    order = np.argsort(found.pairs.difference, kind="stable")
    limits = TextLimit(chars)
    rows = [
        _row(found, pair, prompts if text else None, limits) for pair in page(order, offset, limit).tolist()
    ]
    rate = found.rate
    about = {
        "run": run.name,
        "against": against.name,
        "at": at,
        "against_at": against_at,
        "matched": found.how,
        "compared": " + ".join(f"rewards/{name}" for name in found.reward.functions) or "reward",
        "only_here": found.pairs.only_here,
        "only_there": found.pairs.only_there,
        "won": _share(rate.wins),
        "tied": _share(rate.ties),
        "lost": _share(rate.losses),
        "mean_difference": rate.mean,
        "half_width": rate.half,
    }
    return compare.table(rows, total=len(order), offset=offset, about=about)


def _row(found: RunComparison, pair: int, prompts: Prompts | None, limits: TextLimit) -> dict[str, object]:
    here, there = found.pairs.here, found.pairs.there
    mine, theirs = int(here.row[pair]), int(there.row[pair])
    return {
        "prompt": limits.of(prompts.text(found.here, mine)) if prompts else None,
        "reward": here.reward[pair],
        "against_reward": there.reward[pair],
        "difference": found.pairs.difference[pair],
        "samples": here.samples[pair],
        "against_samples": there.samples[pair],
        "step": here.step[pair],
        "against_step": there.step[pair],
        "uid": found.here.snapshot.uid(mine),
        "against_uid": found.there.snapshot.uid(theirs),
        "in_win_rate": found.pairs.held_out[pair],
    }


def _share(share: Share) -> dict[str, float]:
    return {
        "count": share.count, "of": share.of, "share": share.value, "low": share.low, "high": share.high
    }  # fmt: skip
