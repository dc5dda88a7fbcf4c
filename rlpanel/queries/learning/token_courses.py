"""The questions for tokens over training: courses of chosen ones, and those that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from rlpanel.queries.learning.rewards import REMARKS, Steps, rows_of
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Option, steps_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import LOGGED, RUN, SPLIT, STEP, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.analysis.followed_tokens import TokenCourses

Chosen = Annotated[
    Sequence[str] | None,
    Option(
        "Texts of tokens, or regular expressions /like this/ that are searched in each token.", chars=50,
        metavar="[TOKEN]...", default=None,
    ),
]  # fmt: skip
By = Annotated[
    str, Option("step, rank, or a label of the run.", "step, rank, or a label such as lang.", chars=200)
]
Counts = Annotated[
    bool,
    Option("Only frequencies: lines are read without arrays, which is faster.", flag="--counts"),
]
Range = Annotated[
    int | tuple[int, int] | None,
    Option(
        "The step, or steps such as 40..60.", shown_default="the last third", complete="steps", read=steps_of,
        chars=50,
    ),
]  # fmt: skip
Since = Annotated[
    int | tuple[int, int] | None,
    Option(
        "The steps to compare with.",
        shown_default="the first third",
        complete="steps",
        read=steps_of,
        chars=50,
    ),
]
_READ = (
    TableColumn("samples_read", "integer", "Samples that were read."),
    TableColumn("unreadable", "integer", "Samples whose lines changed while they were read."),
    TableColumn("without", "integer", "Samples without tokens."),
)


@question(
    description="Frequency, probability, entropy, KL and advantage of chosen tokens at each step.",
    columns=(
        TableColumn("token", "text", "As it was asked for."),
        STEP,
        TableColumn("value", "text", "Rank, or value of the label; null by step."),
        TableColumn("count", "integer", "Occurrences among the trained tokens."),
        TableColumn("frequency", "number", "Occurrences per trained token."),
        TableColumn("samples", "number", "Share of the samples that hold it."),
        TableColumn("probability", "number", "Mean probability under the policy."),
        TableColumn("ref_probability", "number", "Mean probability under the reference."),
        TableColumn("entropy", "number", "Mean entropy where it was sampled.", "nats"),
        TableColumn("kl", "number", "Mean KL divergence from the reference (k3).", "nats"),
        TableColumn("advantage", "number", "Mean advantage."),
        TableColumn("tokens", "integer", "All trained tokens of the step."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("by", "text", "What the rows are by."),
        TableColumn(
            "spellings", "objects", "Tokens that were counted, as logged, for each that was asked for."
        ),
        *_READ,
        TableColumn("unequal", "integer", "Samples whose arrays differ in length from their tokens."),
        TableColumn("missing", "texts", "Measures that the run does not log."),
        REMARKS,
    ),
    relation=(
        *("token", "step", "count", "frequency", "samples", "probability", "ref_probability", "entropy"),
        *("kl", "advantage", "tokens"),
    ),
    example='rlpanel token-trend runs/exp1 "Wait" "<|im_end|>" --by step',
    agents="Follow tokens over training: frequency, probability of policy and reference, entropy, KL.",
)
def token_trend(
    run: RunData,
    tokens: Chosen = None,
    *,
    by: By = "step",
    steps: Steps = None,
    counts: Counts = False,
    limit: Limit = None,
    offset: Offset = 0,
) -> Table:
    """Return frequency, probability, entropy, KL and advantage of chosen tokens at each step.

    A text stands for the token with and without a space before it. All lines of the steps are read. Without
    tokens, the five that changed most are taken.

    Parameters
    ----------
    run : RunData
    tokens : sequence of str
        Texts of tokens, or regular expressions between slashes, which are searched in each token.
    by : str
        ``step``, ``rank``, or a label of the run.
    steps : int, slice or str, optional
        A step, or steps; all by default.
    counts : bool
        Only frequencies.
    limit : int, optional
        Maximum number of rows; all by default.
    offset : int
        Number of rows to skip.

    Raises
    ------
    FilterError
        If a regular expression is not valid, or takes too long.
    SettingError
        If the run does not have the steps or the label.
    """
    from rlpanel.analysis.followed_tokens import token_courses
    from rlpanel.analysis.token_reading import MEASURES

    rows, _ = rows_of(run, steps)
    chosen = [tokens] if isinstance(tokens, str) else list(tokens or ()) or _most_changed(run)
    *_, found = token_courses(
        run.index, run.snapshot, rows, _places(run, rows, by), chosen, arrays=not counts
    )
    none = [None] * len(found.places)
    values = []
    for at, choice in enumerate(found.choices):
        measures = {
            name: found.measures[name][:, at].tolist() if name in found.measures else none
            for name in MEASURES
        }
        for row, place in enumerate(found.places):
            count, total = int(found.count[row, at]), int(found.tokens[row])
            values.append(
                {
                    "token": choice.name,
                    "step": place if by == "step" else None,
                    "value": None if by == "step" else str(place),
                    "count": count,
                    "frequency": count / total,
                    "samples": int(found.samples[row, at]) / int(found.of_samples[row]),
                    **{name: each[row] for name, each in measures.items()},
                    "tokens": total,
                }
            )
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "by": by,
        "spellings": [
            {"token": choice.name, "counted": list(each[:20])}
            for choice, each in zip(found.choices, found.spellings, strict=False)
        ],
        "samples_read": found.read,
        "unreadable": found.unreadable,
        "without": found.without,
        "unequal": found.unequal,
        "missing": [] if counts else [name for name in MEASURES if name not in found.measures],
        "remarks": _remarks(found),
    }
    return token_trend.table(page(values, offset, limit), total=len(values), offset=offset, about=about)


@question(
    description="Tokens whose frequency changed most between two ranges of steps, the clearest first.",
    columns=(
        TableColumn("token", "text", "The token's text."),
        LOGGED,
        TableColumn("change", "number", "Frequency minus that of the earlier steps."),
        TableColumn("error", "number", "Standard error of the change, by steps; null with few steps."),
        TableColumn("z", "number", "Change in standard errors, as a normal deviate."),
        TableColumn("frequency", "number", "Occurrences per trained token in the steps."),
        TableColumn("before", "number", "The same in the steps before."),
        TableColumn("count", "integer", "Occurrences in the steps."),
        TableColumn("count_before", "integer", "Occurrences in the steps before."),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("steps", "text", "The steps."),
        TableColumn("since", "text", "The steps that they are compared with."),
        TableColumn("tokens", "integer", "Trained tokens of the steps."),
        TableColumn("tokens_before", "integer", "Trained tokens of the steps before."),
        TableColumn("tried", "integer", "Different tokens with ten occurrences or more."),
        TableColumn("least_z", "number", "Size of z that chance reaches in one of a hundred such tables."),
        *_READ,
    ),
    relation_options={"limit": None},
    example="rlpanel changed-tokens runs/exp1 --steps 40..60 --since 1..20",
    agents="Rank tokens by the change of their frequency between two ranges of steps.",
)
def changed_tokens(
    run: RunData, *, steps: Range = None, since: Since = None, limit: Limit = 20, offset: Offset = 0
) -> Table:
    """Return the tokens whose frequency changed most between two ranges of steps.

    All lines of both ranges are read, without their arrays.

    Parameters
    ----------
    run : RunData
    steps : int or (int, int), optional
        A step, or the first and the last one; by default the last third of the run.
    since : int or (int, int), optional
        The steps to compare with; by default the first third.
    limit : int, optional
        Maximum number of tokens.
    offset : int
        Number of tokens to skip.

    Raises
    ------
    SettingError
        If the ranges overlap, or the run has no sample in one of them.
    """
    from rlpanel.analysis.followed_tokens import token_shifts

    now, before, shown = _ranges(run, steps, since)
    *_, found = token_shifts(run.index, run.snapshot, now, before)
    values = [
        {
            "token": each.token,
            "logged": each.logged,
            "change": each.frequency - each.frequency_before,
            "error": each.error,
            "z": each.z,
            "frequency": each.frequency,
            "before": each.frequency_before,
            "count": each.count,
            "count_before": each.count_before,
        }
        for each in page(found.shifts, offset, limit)
    ]
    about = {
        "run": run.name,
        "split": run.snapshot.split,
        "steps": shown[0],
        "since": shown[1],
        "tokens": found.tokens,
        "tokens_before": found.tokens_before,
        "tried": found.tried,
        "least_z": found.least_z if found.tried else None,
        "samples_read": found.read,
        "unreadable": found.unreadable,
        "without": found.without,
    }
    return changed_tokens.table(values, total=len(found.shifts), offset=offset, about=about)


def _remarks(found: TokenCourses) -> list[str]:
    """Return sentences on tokens that occur nowhere, and on samples without tokens."""
    having = int(found.of_samples.sum())
    if not having:
        return [f"none of {found.read:,} samples has tokens: log response_tokens"] if found.read else []
    return [
        f"{choice.name} occurs in none of {having:,} responses as a token of its own: "
        "`rlpanel search` finds text that several tokens hold"
        for choice, spellings in zip(found.choices, found.spellings, strict=True)
        if not spellings
    ]


def _places(run: RunData, rows: np.ndarray, by: str) -> Sequence[object]:
    """Return the place of each row."""
    from rlpanel.errors import SettingError
    from rlpanel.queries.run_columns import similar

    snapshot = run.snapshot
    if by in ("step", "rank"):
        places: list[object] = snapshot.metadata(by)[rows].tolist()
        return places
    if by not in snapshot.labels:
        raise SettingError(
            f"the run has no label {by[:80]!r}{similar(by, ['step', 'rank', *snapshot.labels])}"
        )
    return [value if value is not None else "(missing)" for value in snapshot.label(by, rows)]


def _ranges(
    run: RunData, steps: int | tuple[int, int] | None, since: int | tuple[int, int] | None
) -> tuple[np.ndarray, np.ndarray, tuple[str | None, str | None]]:
    """Return the rows of two ranges of steps, and the ranges as texts."""
    import numpy as np

    from rlpanel.errors import SettingError
    from rlpanel.queries.step_ranges import steps_text
    from rlpanel.store.query.query import rows_of_steps

    known = run.snapshot.steps.values
    none = np.empty(0, np.int64)
    if len(known) < 2 and (steps is None or since is None):
        return none, none, (None, None)
    third = max(len(known) // 3, 1)
    last, first = (int(known[-third]), int(known[-1])), (int(known[0]), int(known[third - 1]))
    chosen = [last if steps is None else steps, first if since is None else since]
    (low, high), (low_before, high_before) = (
        each if isinstance(each, tuple) else (each, each) for each in chosen
    )
    if low <= high_before and low_before <= high:
        raise SettingError("the two ranges of steps overlap: give others with --steps and --since")
    found = [rows_of_steps(run.snapshot, each) for each in chosen]
    texts = [steps_text(each) for each in chosen]
    for rows, text in zip(found, texts, strict=True):
        if not len(rows):
            raise SettingError(f"the run has no sample at the steps {text}")
    return found[0], found[1], (texts[0], texts[1])


def _most_changed(run: RunData) -> list[str]:
    """Return the texts of the five tokens that changed most between the first and the last third."""
    from rlpanel.analysis.followed_tokens import token_shifts

    now, before, _ = _ranges(run, None, None)
    *_, found = token_shifts(run.index, run.snapshot, now, before)
    return [each.logged for each in found.shifts[:5]]
