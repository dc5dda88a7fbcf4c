"""One sample of a run: its texts and numbers as a table of one row, and its tokens as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Columns, Offset, SampleChars, Start, TokenLimit, TokenSort, Uid
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import LINE, LOGGED, PLACE, RUN, STEP, TAG, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.schema import Sample
    from rlpanel.texts.shorten import TextLimit

#: Token metrics that follow from others; a short answer of a tool leaves them out unless they are asked for.
_DERIVED = ("kl_k2", "kl_rllb", "prob", "ref_prob")
#: Beginnings of numbers of a sample that follow from others: further estimators, and recomputed advantages.
_DERIVED_NUMBERS = (
    *("kl_k1_", "kl_k2_", "kl_rllb_"),
    *("grpo_advantage", "dr_grpo_advantage", "rloo_advantage", "advantage_less_"),
)


def _is_main(name: str, numbers: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether a short answer has a number: a sum follows from its mean, lengths stand in ``chars``."""
    follows = name.endswith("_sum") and f"{name.removesuffix('_sum')}_mean" in numbers
    opposite = name.startswith("surprisal_") and "logprob_mean" in numbers
    length = name in ("prompt_chars", "response_chars")
    return not (follows or opposite or length or name.startswith(_DERIVED_NUMBERS))


def _is_new(name: str, extra: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether a short answer has a value of an unknown key; ``numbers`` has most of them, too."""
    return isinstance(extra[name], bool) or extra[name] != (row["numbers"] or {}).get(name)


def _columns() -> tuple[TableColumn, ...]:
    from rlpanel.queries.samples import text_columns

    return (
        *PLACE,
        *TAG,
        TableColumn("file", "text", "File of the sample, below the run's folder.", full=True),
        LINE,
        *text_columns(),
        TableColumn("chars", "object", "Number of characters of each text."),
        TableColumn(
            "messages", "objects", "The conversation as chat messages: as logged, else by its chat template."
        ),
        TableColumn("numbers", "object", "Numbers of the log and metrics, by column.", brief=_is_main),
        TableColumn("labels", "object", "Short texts of the log, by key."),
        TableColumn("extra", "object", "Values of keys that rlpanel does not know.", brief=_is_new),
        TableColumn("tokens", "integer", "Number of logged response tokens."),
        TableColumn("metrics", "texts", "Token metrics that the sample has.", full=True),
        TableColumn("remarks", "texts", "Remarks on oddities of the sample."),
    )


@question(
    description="One sample of a run, with its texts and numbers.",
    columns=_columns,
    about=(RUN,),
    has_split=False,
    agents="Show one sample with its texts and all numbers; start pages through long texts.",
)
def sample(run: RunData, uid: Uid, *, chars: SampleChars = None, start: Start = 0) -> Table:
    """Return one sample with its texts and numbers, as a table of one row.

    Parameters
    ----------
    run : RunData
    uid : str
    chars : int, optional
        Maximum number of characters of each text, also of those in messages; whole texts by default.
    start : int
        Number of characters of each text to skip.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SourceChanged
        If its line in the file has changed or was deleted.
    """
    import numpy as np

    from rlpanel import schema
    from rlpanel.metrics.engine.compute import token_values
    from rlpanel.metrics.logged_arrays import query_names
    from rlpanel.queries.run_columns import cut_texts
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.texts.shorten import TextLimit

    limits = TextLimit(chars, start)
    found = run.sample(uid)
    note = Notes(run.path).of(found.uid)
    texts = {name: getattr(found, name) for name in schema.TEXTS}
    row: dict[str, Any] = {
        "uid": found.uid,
        "step": found.step,
        "rank": found.rank,
        "tag": note.tag or None,
        "note": note.note or None,
        "file": found.file,
        "line": found.line,
        "chars": {name: len(text) for name, text in texts.items() if text is not None},
        "messages": _cut_strings(_messages(found), limits),
        "numbers": {name: value for name, value in found.columns.items() if np.isfinite(value)},
        "labels": _labels(found),
        "extra": _cut_strings(found.extra, limits),
        "tokens": len(found.response_tokens or ()),
        "metrics": [*token_values(found.arrays()), *query_names(found.token_arrays)],
        "remarks": list(found.notes),
    }
    return sample.table([row | cut_texts(texts, limits)], about={"run": run.name})


@question(
    description="The response tokens of one sample, in order.",
    columns=(
        TableColumn("position", "integer", "Position of the token in the response, from 0."),
        TableColumn("token", "text", "The token's text; empty if a later token completes its character."),
        LOGGED,
        TableColumn("token_id", "integer", "The token's id.", full=True),
        TableColumn("loss_mask", "integer", "1 for a token in the loss, else 0.", full=True),
    ),
    others="Further columns are numbers: token metrics such as kl_k3, value and surprisal, and lists of the "
    "line that are as long as the tokens, by their own names.",
    about=(
        RUN,
        TableColumn("uid", "text", "The sample's identifier."),
        STEP,
        TableColumn("available", "texts", "Token metrics that the sample has.", full=True),
    ),
    frame=("position", "token=logged", "token_id", "loss_mask"),
    has_split=False,
    agents="List the response tokens of one sample with metrics such as kl_k3, value and surprisal; "
    "sort=-kl_k3 lists the worst first.",
)
def sample_tokens(
    run: RunData,
    uid: Uid,
    *,
    metrics: Columns = None,
    sort: TokenSort = "",
    limit: TokenLimit = None,
    offset: Offset = 0,
) -> Table:
    """Return the response tokens of one sample with token metrics.

    Parameters
    ----------
    run : RunData
    uid : str
    metrics : sequence of str, optional
        Token metrics; all by default.
    sort : str
        Token metric, with ``-`` in front for descending order; by default the order of the response.
    limit : int, optional
        Maximum number of tokens; all by default.
    offset : int
        Number of tokens to skip.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SourceChanged
        If its line in the file has changed or was deleted.
    SettingError
        If the sample does not have a metric.
    """
    import numpy as np

    from rlpanel.metrics.engine.compute import token_values
    from rlpanel.metrics.logged_arrays import query_names
    from rlpanel.queries.run_columns import chosen, number_column
    from rlpanel.store.snapshot.token_scales import token_scales

    found = run.sample(uid)
    values = token_values(found.arrays()) | {
        name: found.token_arrays[key] for name, key in query_names(found.token_arrays).items()
    }
    source = f"sample {found.uid}"
    names = chosen(metrics, values, values, source)
    [ordered_by] = chosen([sort.removeprefix("-")], values, (), source) if sort else [""]
    logged = {
        "logged": found.response_tokens, "token_id": found.response_token_ids, "loss_mask": found.loss_mask
    }  # fmt: skip
    arrays = {name: array for name, array in logged.items() if array is not None}
    arrays |= {name: values[name] for name in names}
    count = max(map(len, arrays.values()), default=0)
    order = np.arange(count)
    if ordered_by:  # numpy sorts missing numbers to the end
        numbers = np.asarray(_padded(values[ordered_by], count), float)
        order = np.argsort(-numbers if sort.startswith("-") else numbers, kind="stable")
    shown = page(order, offset, limit)
    rows: dict[str, Any] = {
        name: _at(_padded(array, count), shown)
        for name, array in {"position": np.arange(count), **arrays}.items()
    }
    if found.response_tokens:
        rows["token"] = lambda: _at(_padded(_decoded(found), count), shown)
    about = {"run": run.name, "uid": found.uid, "step": found.step, "available": list(values)}
    return sample_tokens.table(
        rows,
        others=[replace(number_column(name), full=metrics is None and name in _DERIVED) for name in names],
        total=count,
        offset=offset,
        about=about,
        attrs={"uid": found.uid, "step": found.step, "scales": token_scales(run.snapshot)},
    )


def _at(values: Any, order: np.ndarray) -> Any:
    """Return the values of some tokens."""
    import numpy as np

    return values[order] if isinstance(values, np.ndarray) else [values[at] for at in order.tolist()]


def _padded(values: Any, count: int) -> Any:
    """Return tokens or numbers with missing ones at the end, if other columns are longer."""
    import numpy as np

    if len(values) == count:
        return values
    if isinstance(values, np.ndarray):
        return np.pad(values.astype(float), (0, count - len(values)), constant_values=np.nan)
    return [*values, *[None] * (count - len(values))]


def _decoded(found: Sample) -> list[str]:
    """Return the text of each token; empty if a later token completes its character."""
    from rlpanel.texts.display_text import decode

    tokens = found.response_tokens or []
    return [*decode(tokens, response=found.response, loss_mask=found.loss_mask).texts]


def _messages(found: Sample) -> list[Mapping[str, Any]]:
    """Return the messages of a sample: as logged, else those that the markup in its texts divides."""
    from rlpanel.analysis.text_turns import conversation_of

    if found.messages:
        return list(found.messages)
    conversation = conversation_of(found)
    return list(conversation.messages) if conversation.from_text else []


def _labels(found: Sample) -> Mapping[str, str]:
    from rlpanel import schema

    labels = {name: getattr(found, name) for name in schema.LABELS}
    return {name: text for name, text in labels.items() if text is not None}


def _cut_strings(value: Any, limits: TextLimit) -> Any:
    """Return a value of JSON with the texts in it cut to the limit, from their beginnings."""
    if isinstance(value, str):
        return value if limits.chars is None else value[: limits.chars]
    if isinstance(value, Mapping):
        return {key: _cut_strings(item, limits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut_strings(item, limits) for item in value]
    return value
