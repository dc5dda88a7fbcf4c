"""The table of the samples whose prompt or response contains a text, with the place that was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import (
    Around,
    Everything,
    FilterBy,
    Found,
    Limit,
    Offset,
    SearchSort,
    Step,
)
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import ABOUT_SAMPLES, PLACE, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.store.query.text_predicate import TextPredicate


@question(
    description="Samples whose texts contain a text, with the first place of each.",
    columns=(
        *PLACE,
        TableColumn("reward", "number", "The score of the whole response.", "reward"),
        TableColumn("field", "text", "The text that contains the place: prompt, response, …"),
        TableColumn("before", "text", "What stands before the place."),
        TableColumn("found", "text", "The place."),
        TableColumn("after", "text", "What stands after the place."),
        TableColumn("at", "integer", "First character of the place in its text, from 0."),
        TableColumn("places", "integer", "Number of places in the sample, at most 50 in a text."),
    ),
    about=(
        *ABOUT_SAMPLES,
        TableColumn("search", "text", "The text that was searched."),
        TableColumn("samples", "integer", "Number of samples in the run, or in the step."),
        TableColumn("searched", "integer", "Number of these that were searched, the newest first."),
    ),
    example='rlpanel search runs/exp1 "the" --step 20 --limit 5',
    agents="Find samples by a text in their prompts or responses, newest first; stops when it has enough.",
)
def search(
    run: RunData,
    text: Found,
    *,
    filter: FilterBy = "",
    step: Step = None,
    sort: SearchSort = "",
    limit: Limit = 50,
    offset: Offset = 0,
    around: Around = 60,
    everything: Everything = False,
) -> Table:
    """Return the places of a text in prompts and responses, ignoring case, the newest steps first.

    The search stops when more samples are found than are returned, unless --all, --sort or --limit 0 is
    given. The total is then the number of samples found so far.

    Parameters
    ----------
    run : RunData
    text : str
        The text, or a regular expression ``/like this/``.
    filter : str
        Filter expression that the samples must pass as well.
    step : int, optional
        Only this step; all by default.
    sort : str
        Number column, with ``-`` in front for descending order.
    limit : int, optional
        Maximum number of samples.
    offset : int
        Number of samples to skip.
    around : int
        Number of characters before and after the place.
    everything : bool
        Search all samples, also after enough were found.

    Raises
    ------
    FilterError
        If the filter or the regular expression is not valid, or takes too long.
    SettingError
        If the run does not have the step, or the text is empty.
    """
    import numpy as np

    from rlpanel.queries.run_columns import checked_step, read_logged_texts
    from rlpanel.store.query.query import Query, QuerySpec
    from rlpanel.store.query.sample_notes import Notes

    if not text.strip():
        raise SettingError("the text to search is empty; rlpanel samples lists all samples")
    view = run.view
    snapshot = view.snapshot
    if step is not None:
        checked_step(view, step)
    spec = QuerySpec(step=step, filter=filter, search=text, sort=sort, newest_first=True)
    enough = None if everything or sort or limit is None else offset + limit
    for result in Query(run.index, snapshot, spec, Notes(run.path)).results():
        if enough is not None and len(result.rows) > enough:  # one more shows that there are more
            break
    rows = np.asarray(page(result.rows, offset, limit))
    reward = snapshot.number("reward")[rows] if snapshot.has_number("reward") else np.full(len(rows), np.nan)
    found = [_place(texts or {}, result.tests, around) for texts in read_logged_texts(run, rows)]
    places = {
        "uid": snapshot.uids(rows),
        "step": snapshot.metadata("step")[rows],
        "rank": snapshot.metadata("rank")[rows],
        "reward": reward,
    }
    cells = [dict(zip(places, values, strict=True)) for values in zip(*places.values(), strict=True)]
    facts = {"run": run.name, "split": snapshot.split, "step": step, "search": text}
    facts |= {"samples": result.total, "searched": result.total - result.undecided}
    listed = [cell | place for cell, place in zip(cells, found, strict=True)]
    return search.table(listed, total=len(result.rows), offset=offset, about=facts)


def _place(texts: Mapping[str, str], tests: Iterable[TextPredicate], around: int) -> dict[str, object]:
    """Return the first place in a sample's texts; the response comes first, since prompts are repeated."""
    from rlpanel import schema
    from rlpanel.store.query.text_predicate import PlaceFinder

    order = sorted(texts, key=lambda name: (name != "response", schema.TEXTS.index(name)))
    finder = PlaceFinder(tests)
    found = {name: places for name in order if (places := finder.places(name, texts[name]))}
    if not found:
        return {}
    name, places = next(iter(found.items()))
    (start, end), text = places[0], texts[name]
    return {
        "field": name,
        "before": text[max(start - around, 0) : start],
        "found": text[start:end],
        "after": text[end : end + around],
        "at": start,
        "places": sum(map(len, found.values())),
    }
