"""The table of what is different between two sets of samples."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rlpanel.queries.question import question
from rlpanel.queries.question_options import A, B, Limit, MostTexts, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.analysis.difference import Difference


@question(
    description="What is different between two sets of samples, the largest effect first.",
    columns=(
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
        TableColumn("uids_a", "texts", "Such samples of the first set, at most 200.", most=1),
        TableColumn("uids_b", "texts", "Such samples of the second set, at most 200.", most=1),
    ),
    about=(
        TableColumn("a", "text", "The first set."),
        TableColumn("b", "text", "The second set."),
        TableColumn("samples_a", "integer", "Number of samples of the first set."),
        TableColumn("samples_b", "integer", "Number of samples of the second set."),
        TableColumn("texts", "integer", "Number of responses that were read."),
        TableColumn("tried", "integer", "Number of things that were tested."),
    ),
    example="rlpanel contrast runs/exp1 50..60 1..10 --limit 5",
    agents="List what is different between two sets of samples: numbers, labels, words, openings.",
)
def contrast(
    run: RunData,
    a: A,
    b: B = None,
    *,
    exclude: Collection[str] = (),
    texts: MostTexts = 4000,
    limit: Limit = None,
    offset: Offset = 0,
) -> Table:
    """Return what is different between two sets of samples: numbers, labels, words and openings.

    Parameters
    ----------
    run : RunData
    a, b : int, slice, (int, int), str, RunData, or (RunData, one of these)
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
    from rlpanel.analysis.selection_contrast import contrast as contrast_sets
    from rlpanel.queries.sample_sets import contrast_sides

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
    attrs = {
        "samples": (len(found.a.rows), len(found.b.rows)),
        "texts": found.texts_total,
        "tried": about["tried"],
    }
    rows = [_row(difference) for difference in page(found.differences, offset, limit)]
    return contrast.table(rows, total=len(found.differences), offset=offset, about=about, attrs=attrs)


def _row(difference: Difference) -> dict[str, object]:
    tested = difference.tested
    return {
        **{name: getattr(tested, name) for name in ("a", "b", "effect", "error", "z")},
        **{name: getattr(difference, name) for name in ("kind", "name")},
        **{name: list(getattr(difference, name)) for name in ("uids_a", "uids_b")},
        **{name: getattr(difference, name) for name in ("count_a", "count_b", "size_a", "size_b")},
        "filter": difference.where,
    }
