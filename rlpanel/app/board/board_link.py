"""The board's address of a selection: a run, step, sample, token, filter or search."""

from __future__ import annotations

from rlpanel.app.board.url_state import write_query
from rlpanel.panels.session.context import Selection

#: Address of a board that was started without options.
USUAL_ADDRESS = "http://localhost:5006"


def board_link(
    run: str,
    *,
    step: int | None = None,
    sample: str = "",
    token: int = -1,
    metric: str = "",
    filter: str = "",
    search: str = "",
    sort: str = "",
    split: str = "",
    against: str = "",
    url: str = USUAL_ADDRESS,
) -> str:
    """Return the address.

    Parameters
    ----------
    run : str
        Name of the run: its path below the folder that the board serves.
    step : int, optional
    sample : str
        Uid of a sample.
    token : int
        Position of a token; -1 for none.
    metric : str
        Token metric that colours the text.
    filter, search, sort, split : str
        As on the board. They apply to the whole run if neither step nor sample is given.
    against : str
        Name of a run to compare with.
    url : str
        Address of the board.
    """
    whole_run = step is None and not sample
    chosen: dict[str, object] = {
        "run": run,
        "split": split,
        "uid": sample,
        "token": token,
        "filter": filter,
        "search": search,
        "sort": sort,
        "against": against,
        "scope": "run" if whole_run and (filter or search or sort) else "step",
        "follow": whole_run,
    }
    chosen |= {} if step is None else {"step": step}
    chosen |= {"metric": metric} if metric else {}
    return f"{url.rstrip('/')}/{write_query(Selection(**chosen))}"
