"""The table of what is different between two sets of samples."""

from __future__ import annotations

import re
from collections.abc import Collection

from rlpanel.analysis.contrast_side import MOST_TEXTS
from rlpanel.analysis.difference import Difference
from rlpanel.analysis.selection_contrast import contrast as contrast_sets
from rlpanel.api.explanation_frames import Selected, contrast_sides
from rlpanel.api.run import Run
from rlpanel.errors import SettingError
from rlpanel.tables.table import Table, TableColumn, TableSpec, page

CONTRAST = TableSpec(
    "contrast",
    "What is different between two sets of samples, the largest effect first.",
    (
        TableColumn("kind", "text", "number, label, missing, script, word, words or opening."),
        TableColumn("name", "text", "TableColumn, label = value, script, or text."),
        TableColumn("a", "number", "Mean or share in the first set."),
        TableColumn("b", "number", "Mean or share in the second set."),
        TableColumn("effect", "number", "a − b in standard deviations."),
        TableColumn("error", "number", "Standard error of the effect, clustered by group."),
        TableColumn("z", "number", "Effect divided by its standard error."),
        TableColumn("count_a", "integer", "Samples of the first set with the feature."),
        TableColumn("count_b", "integer", "Samples of the second set with the feature."),
        TableColumn("size_a", "integer", "Samples of the first set that were compared."),
        TableColumn("size_b", "integer", "Samples of the second set that were compared."),
        TableColumn("filter", "text", "Filter expression for such samples; empty if there is none."),
        TableColumn("uids_a", "texts", "Such samples of the first set, at most 200."),
        TableColumn("uids_b", "texts", "Such samples of the second set, at most 200."),
    ),
    about=(
        TableColumn("a", "text", "The first set."),
        TableColumn("b", "text", "The second set."),
        TableColumn("samples_a", "integer", "Number of samples of the first set."),
        TableColumn("samples_b", "integer", "Number of samples of the second set."),
        TableColumn("texts", "integer", "Number of responses that were read."),
        TableColumn("tried", "integer", "Number of things that were tested."),
    ),
)

#: What is meant as steps, even if it is not valid: no filter begins like this.
_LIKE_STEPS = re.compile(r"\s*(-?\d+\s*)?(\.\.|:)")
_STEPS = re.compile(r"\s*(-?\d*)\s*(?:\.\.|:)\s*(-?\d*)\s*|\s*(-?\d+)\s*")


def contrast(
    run: Run,
    a: Selected,
    b: Selected | None = None,
    *,
    exclude: Collection[str] = (),
    texts: int = MOST_TEXTS,
    limit: int | None = None,
    offset: int = 0,
) -> Table:
    """Return what is different between two sets of samples; see `Run.contrast`.

    Parameters
    ----------
    run : Run
    a, b : int, slice, (int, int), str, Run, or (Run, one of these)
        By default ``b`` is the rest of the run.
    exclude : collection of str
        Columns not to compare.
    texts : int
        Maximum number of responses to read of each set.
    limit : int, optional
        Maximum number of differences; all by default.
    offset : int
        Number of differences to skip.

    Raises
    ------
    SettingError
        If a set is empty or no selection.
    FilterError
        If a filter is not valid.
    """
    first, other, used = contrast_sides(run, a, b)
    *_, found = contrast_sets(first, other, exclude={*exclude, *used}, texts=texts)
    about = {
        "a": first.name,
        "b": other.name,
        "samples_a": len(found.a.rows),
        "samples_b": len(found.b.rows),
        "texts": found.texts_total,
        "tried": found.columns_tried + found.features_tried,
    }
    rows = [_row(difference) for difference in page(found.differences, offset, limit)]
    return CONTRAST.table(rows, total=len(found.differences), offset=offset, about=about)


def selection_of(text: str) -> Selected:
    """Return the selection that a text describes: a step, steps such as ``10..20``, or a filter.

    Parameters
    ----------
    text : str
        ``12``, ``10..20`` (both included), ``10..``, ``..20``, or a filter expression.

    Raises
    ------
    SettingError
        If a range of steps is not valid.
    """
    match = _STEPS.fullmatch(text)
    if match is None or match.group(0).strip() in ("..", ":"):
        if _LIKE_STEPS.match(text):
            raise SettingError(f"{text!r} is no range of steps: write 10..20, 10.. or ..20")
        return text
    if match.group(3) is not None:
        return int(match.group(3))
    ends = [int(end) if end else None for end in match.group(1, 2)]
    return slice(*ends)


def _row(difference: Difference) -> dict[str, object]:
    tested = difference.tested
    return {
        **{name: getattr(tested, name) for name in ("a", "b", "effect", "error", "z")},
        **{name: getattr(difference, name) for name in ("kind", "name", "uids_a", "uids_b")},
        **{name: getattr(difference, name) for name in ("count_a", "count_b", "size_a", "size_b")},
        "filter": difference.where,
    }
