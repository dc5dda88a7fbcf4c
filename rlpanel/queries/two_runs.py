"""The questions for two runs: prompts in common, where one leaves the other, and the settings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from rlpanel.board_url import NEWEST
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Against, At, Limit, Offset, Option, PromptChars, PromptText
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.analysis.run_comparison import Prompts, RunComparison
    from rlpanel.divergence.parting import Parting
    from rlpanel.divergence.step_pairs import StepPairs
    from rlpanel.metrics.win_rate import Share
    from rlpanel.texts.shorten import TextLimit


# -- compare -------------------------------------------------------------------------------------------
# The table of the prompts that two runs have in common, with their rewards in both.


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


# -- diverge -------------------------------------------------------------------------------------------
# The question where one run leaves another: first step, what differs first, settings, and samples.


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
    rows = [_parting_row(each, pairs) for each in page(found.partings, offset, limit)]
    return diverge.table(rows, total=len(found.partings), offset=offset, about=about)


def _parting_row(parting: Parting, pairs: StepPairs) -> dict[str, object]:
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


# -- settings list -------------------------------------------------------------------------------------
# The table of a run's settings, from the configuration files in its folder; secrets are not shown.


Find = Annotated[str, Option("Only settings whose name contains this text.", chars=100)]


@question(
    name="settings",
    description="Settings of a run, from the configuration files and launch commands in its folder.",
    columns=(
        TableColumn("name", "text", "Dotted name of the setting."),
        TableColumn("value", "text", "Its value as text; null if it is null or hidden."),
        TableColumn("file", "text", "The file that it comes from, relative to the run's folder."),
        TableColumn("hidden", "boolean", "True if it may be a secret, so that its value is not shown."),
    ),
    about=(
        RUN,
        TableColumn("files", "texts", "Files that were read."),
        TableColumn("skipped", "objects", "Files that were not read, with reasons."),
        TableColumn("hidden_settings", "integer", "Number of settings whose values are not shown."),
        TableColumn("beyond_limits", "integer", "Settings beyond the limits on number and nesting."),
    ),
    has_relation=False,
    has_split=False,
    example="rlpanel settings runs/exp1 --find lr",
    agents="List the settings of a run's configuration files and launch command; secrets are hidden.",
)
def settings_list(run: RunData, *, find: Find = "", limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the settings of a run.

    Parameters
    ----------
    run : RunData
    find : str
        Only settings whose name contains this text.
    limit : int, optional
        Maximum number of settings; all by default.
    offset : int
        Number of settings to skip.
    """
    from rlpanel.sources.config.config_values import setting_value
    from rlpanel.sources.config.run_config import read_run_config

    config = read_run_config(run.path, run.index.root)
    chosen = [each for each in config.settings if find.lower() in each.name.lower()]
    about = {
        "run": run.name,
        "files": list(config.files),
        "skipped": [{"file": file, "reason": reason} for file, reason in config.skipped],
        "hidden_settings": config.hidden,
        "beyond_limits": config.left_out,
    }
    rows = [
        {
            "name": each.name,
            "value": None if each.value is None else setting_value(each.value),
            "file": each.file,
            "hidden": each.hidden,
        }
        for each in page(chosen, offset, limit)
    ]
    return settings_list.table(rows, total=len(chosen), offset=offset, about=about)
