"""The table of a step's tokens with the highest mean of a metric."""

from __future__ import annotations

import numpy as np

from rlpanel.api.run import Run
from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.metrics.token_tally import RankedToken
from rlpanel.store.query.query import QuerySpec
from rlpanel.store.query.sample_notes import Notes
from rlpanel.store.query.token_reader import TallyProgress, TokenReader, within_limit
from rlpanel.tables.run_columns import similar, step_or_newest
from rlpanel.tables.sample_rows import passing
from rlpanel.tables.table import RUN, SPLIT, Table, TableColumn, TableSpec, page
from rlpanel.texts.display_text import Encoding, detect, read_piece

TOKENS = TableSpec(
    "tokens",
    "Tokens of a step with the highest mean of a metric.",
    (
        TableColumn("token", "text", "The token's text."),
        TableColumn("logged", "text", "The token as it was logged."),
        TableColumn("count", "integer", "Number of occurrences with a value."),
        TableColumn("mean", "number", "Mean of the metric over these occurrences."),
        TableColumn("max", "number", "Largest value."),
        TableColumn("uid", "text", "The sample with the largest value."),
        TableColumn("position", "integer", "Position of the largest value in its sample, from 0."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("step", "integer", "The step."),
        TableColumn("metric", "text", "The metric by which tokens are ranked; null if no tokens are logged."),
        TableColumn("available", "texts", "Metrics by which tokens can be ranked."),
        TableColumn("samples_read", "integer", "Number of samples that were read."),
        TableColumn("samples_in_step", "integer", "Number of samples of the step that pass the filter."),
        TableColumn("tokens_read", "integer", "Number of tokens that were counted."),
    ),
)


def tokens(
    run: Run,
    step: int | None = None,
    *,
    metric: str | None = None,
    filter: str = "",
    least: int = 3,
    limit: int | None = 50,
    offset: int = 0,
    most_samples: int | None = None,
) -> Table:
    """Return the tokens of a step with the highest mean of a metric; their samples are read from the files.

    Parameters
    ----------
    run : Run
    step : int, optional
        By default the newest complete step.
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
    view, display = run.view, Display()
    snapshot = view.snapshot
    step = step_or_newest(view, step)
    matching = np.empty(0, int)
    if step is not None:
        matching = np.sort(passing(run, QuerySpec(step=step, filter=filter), Notes(run.path)).rows)
    rows = snapshot.sample_rows(matching, display.max_samples if most_samples is None else most_samples)
    rows = within_limit(snapshot, rows)
    kl = metric if metric is not None and metric.startswith(("kl_", "log_ratio")) else display.kl_estimator
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
        "step": step,
        "metric": chosen if measures else None,
        "available": list(measures),
        "samples_read": progress.read,
        "samples_in_step": len(matching),
        "tokens_read": progress.tally.tokens,
    }
    encoding = detect(progress.first_tokens)
    shown = [_row(ranked, progress, encoding) for ranked in page(ranking, offset, limit)]
    return TOKENS.table(shown, total=len(ranking), offset=offset, about=about)


def _row(ranked: RankedToken, progress: TallyProgress, encoding: Encoding) -> dict[str, object]:
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
