"""Tables of tokens: the tokens of one sample with all token metrics, and a ranking over many samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.token_reader import TallyProgress, TokenReader, within_limit
from rlpanel.store.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

#: A step, or the first and the last of several.
Steps = int | tuple[int, int]


def token_frame(sample: Sample) -> pd.DataFrame:
    """Return one row per token of a sample: position, token, id, loss mask and all token metrics.

    The table is as long as the longest array. Shorter ones end with missing values.
    """
    import pandas as pd

    tokens, ids, mask = sample.response_tokens, sample.response_token_ids, sample.loss_mask
    columns: dict[str, np.ndarray] = {}
    if tokens is not None:
        columns["token"] = np.array(tokens, object)
    if ids is not None:
        columns["token_id"] = ids
    if mask is not None:
        columns["loss_mask"] = mask
    columns |= token_values(sample.arrays())
    frame = pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})
    frame.insert(0, "position", np.arange(len(frame)))
    frame.attrs = {"uid": sample.uid, "step": sample.step}
    return frame


def token_ranking_frame(
    index: RunIndex, snapshot: Snapshot, steps: Steps, metric: str, *, least: int, most: int
) -> pd.DataFrame:
    """Return the tokens with the highest mean of a measure over the samples of some steps.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    steps : int or (int, int)
    metric : str
        One of the measures that the samples have: a KL estimator, ``surprisal`` or ``value_error``. Empty
        for the first of them.
    least : int
        Tokens that were seen less often are left out.
    most : int
        Maximum number of rows.

    Raises
    ------
    SettingError
        If the samples do not have the measure.
    """
    import pandas as pd

    display = Display()
    kl = metric if metric in ("kl_k2", "log_ratio", "kl_rllb") else display.kl_estimator
    wanted = _rows(snapshot, steps)
    *_, progress = TokenReader(index, kl, display.pad_token).read(
        snapshot, within_limit(snapshot, wanted), TallyProgress()
    )
    measures = progress.tally.measures
    if metric and metric not in measures:
        raise SettingError(
            f"no token metric {metric!r} to rank by; available: {', '.join(measures) or 'none'}"
        )
    measure = metric or next(iter(measures), "")
    ranking = progress.tally.ranking(measure, least=least, most=most) if measure else []
    places = [ranked.places[0] for ranked in ranking]
    frame = pd.DataFrame(
        {
            "token": [ranked.token for ranked in ranking],
            "count": [ranked.seen for ranked in ranking],
            "mean": [ranked.mean for ranked in ranking],
            "max": [ranked.most for ranked in ranking],
            "uid": [progress.samples[sample][0] for sample, _ in places],
            "position": [position for _, position in places],
        }
    )
    frame.attrs = {
        "metric": measure,
        "tokens": progress.tally.tokens,
        "samples": progress.read,
        "samples_total": len(wanted),
    }
    return frame


def _rows(snapshot: Snapshot, steps: Steps) -> np.ndarray:
    """Return the rows of a step or of a range of steps, both ends included."""
    if not isinstance(steps, tuple):
        return snapshot.rows_of(steps)
    rows = snapshot.alive_rows
    step = snapshot.metadata("step")[rows]
    return rows[(step >= steps[0]) & (step <= steps[1])]
