"""The table of a step's tokens with the highest mean of a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import FilterBy, Least, Limit, OneStepOrMore, RankBy, TokenOffset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import LOGGED, RUN, SPLIT, STEPS, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.metrics.token_tally import RankedToken
    from rlpanel.store.query.fetch_sample import TallyProgress
    from rlpanel.texts.display_text import Encoding


@question(
    description="Tokens of a step with the highest mean of a metric.",
    columns=(
        TableColumn("token", "text", "The token's text."),
        LOGGED,
        TableColumn("count", "integer", "Number of occurrences with a value."),
        TableColumn("mean", "number", "Mean of the metric over these occurrences."),
        TableColumn("max", "number", "Largest value."),
        TableColumn("uid", "text", "The sample with the largest value."),
        TableColumn("position", "integer", "Position of the largest value in its sample, from 0."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("step", "integer", "The step; null for several."),
        STEPS,
        TableColumn("metric", "text", "The metric by which tokens are ranked; null if no tokens are logged."),
        TableColumn("available", "texts", "Metrics by which tokens can be ranked.", full=True),
        TableColumn("samples_read", "integer", "Number of samples that were read."),
        TableColumn("samples_in_step", "integer", "Number of samples of the step that pass the filter."),
        TableColumn("tokens_read", "integer", "Number of tokens that were counted."),
    ),
    frame=("token=logged", "count", "mean", "max", "uid", "position"),
    has_relation=False,  # in SQL, this is the function for the tokens of some steps, one by one
    example="rlpanel tokens runs/exp1 --step 20 --metric kl_k3 --limit 5",
    agents="Rank the tokens of a step by mean KL, surprisal or value error; reads the lines of the step.",
)
def tokens(
    run: RunData,
    step: OneStepOrMore = None,
    *,
    metric: RankBy = "",
    filter: FilterBy = "",
    least: Least = 3,
    limit: Limit = 50,
    offset: TokenOffset = 0,
    most_samples: int | None = None,
) -> Table:
    """Return the tokens of a step with the highest mean KL, surprisal or value error.

    The samples are read from the files.

    Parameters
    ----------
    run : RunData
    step : int or (int, int), optional
        A step, or the first and the last of several, of which some may be missing; by default the
        newest complete step.
    metric : str, optional
        A KL estimator such as ``kl_k3``, ``surprisal`` or ``value_error``; by default the first of these.
    filter : str
        Filter expression for the samples.
    least : int
        Tokens with fewer occurrences are left out, because means of few values are noise.
    limit : int, optional
        Maximum number of tokens.
    offset : int
        Number of tokens to skip.
    most_samples : int, optional
        Maximum number of samples to read, chosen reproducibly by uid; by default as on the board.

    Raises
    ------
    FilterError
        If the filter is not valid.
    SettingError
        If the run does not have the step, or the samples do not have the metric.
    """
    from rlpanel.display_settings import Display
    from rlpanel.queries.run_columns import similar, step_or_newest
    from rlpanel.queries.step_ranges import in_run, step_facts
    from rlpanel.store.query.fetch_sample import TallyProgress, TokenReader, within_limit
    from rlpanel.texts.display_text import detect

    view, display = run.view, Display()
    snapshot = view.snapshot
    step = step_or_newest(view, None) if step is None else in_run(view, step)
    matching = _matching(run, step, filter)
    rows = snapshot.sample_rows(matching, display.max_samples if most_samples is None else most_samples)
    rows = within_limit(snapshot, rows)
    kl = metric if metric.startswith(("kl_", "log_ratio")) else display.kl_estimator
    *_, progress = TokenReader(run.index, kl, display.pad_token).read(snapshot, rows, TallyProgress())
    measures = progress.tally.measures
    chosen = metric or next(iter(measures), None)
    if measures and chosen not in measures:
        raise SettingError(f"tokens have no metric {str(chosen)[:80]!r}{similar(str(chosen), measures)}")
    ranking = (
        progress.tally.ranking(chosen, least=least, most=len(progress.tally)) if measures and chosen else []
    )
    about = {
        "run": run.name,
        "split": snapshot.split,
        **step_facts(step),
        "metric": chosen if measures else None,
        "available": list(measures),
        "samples_read": progress.read,
        "samples_in_step": len(matching),
        "tokens_read": progress.tally.tokens,
    }
    attrs = {
        "metric": chosen or "",
        "tokens": progress.tally.tokens,
        "samples": progress.read,
        "samples_total": len(matching),
    }
    encoding = detect(progress.first_tokens)
    shown = [_row(ranked, progress, encoding) for ranked in page(ranking, offset, limit)]
    return tokens.table(shown, total=len(ranking), offset=offset, about=about, attrs=attrs)


def _matching(run: RunData, step: int | tuple[int, int] | None, filter: str) -> np.ndarray:
    """Return the rows of the steps that pass the filter."""
    import numpy as np

    from rlpanel.queries.samples import passing
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.query import QuerySpec

    if step is None:
        return np.empty(0, int)
    return np.sort(passing(run, QuerySpec(step=step, filter=filter), Notes(run.path)).rows)


def _row(ranked: RankedToken, progress: TallyProgress, encoding: Encoding) -> dict[str, object]:
    from rlpanel.texts.display_text import read_piece

    sample, position = ranked.places[0] if ranked.places else (None, None)
    return {
        "token": read_piece(ranked.token, encoding),
        "logged": ranked.token,
        "count": ranked.seen,
        "mean": ranked.mean,
        "max": ranked.most,
        "uid": None if sample is None else progress.samples[sample][0],
        "position": position,
    }
