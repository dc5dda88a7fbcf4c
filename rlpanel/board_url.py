"""The board's address: each key of its query string, and the address of a run, step, sample or filter.

The board reads and writes it for its selection (`rlpanel.panels.session.context.Selection`); commands,
agents and alerts write it for people. It imports the standard library alone, so that a command writes a link
at once.

Keys are read one by one: a value that cannot be read is ignored and reported, the others are applied. The
name of a run is always text, even if it looks like a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

#: Port and address of a board that was started without options.
USUAL_PORT = 5006
USUAL_ADDRESS = f"http://localhost:{USUAL_PORT}"
#: Maximum number of characters of a query string.
MAX_QUERY = 8192
#: Maximum number of runs and splits whose curves are drawn over those of the selected run.
MAX_OVERLAY_RUNS = 8
#: Whether the theme is dark, unless the viewer chooses one.
DARK_DEFAULT = True
#: Largest weight of the moving average; with a larger one, the line would not reach the values within a run.
MAX_SMOOTHING = 0.99
#: Quantities on the x axis of the curves: steps, samples seen, wall time.
STEP, SAMPLES, TIME = "step", "samples", "time"
#: Choice of the samples that represent a compared run: those of each prompt's newest or first step, or of the
#: best step (see `rlpanel.store.snapshot.prompt_pairs`). ``12`` chooses a step, and ``10..20`` several.
NEWEST, FIRST, BEST = "newest", "first", "best"
#: Tabs of the sample; none in the address: the sample chooses.
TABS = ("conversation", "tokens", "reference", "diff", "group", "prompt")
#: Page that the address names only where a link would open another one: beside a comparison of runs.
OVERVIEW = "overview"
#: The table of all runs, which is about no single one.
RUNS_PAGE = "table"
#: All other pages of the run.
PAGES = (RUNS_PAGE, "samples", "sample", "rollouts", "prompts", "compare", "explain", "timeline", "ranking")
#: How the conversation shows texts.
MODES = ("text", "raw", "tokens")
#: What the colour scale of token metrics is taken from.
SCALES = ("run", "step", "sample")
#: What curves show around the mean; none in the address: what the display settings say.
BANDS = ("auto", "se", "iqr", "std", "range", "density", "ridge", "none")
#: Questions of the page *Explain*; what a question needs besides stands behind a colon.
QUESTIONS = ("shares", "contrast", "repeats", "scatter")
_TRUE, _FALSE = {"1", "true", "dark"}, {"0", "false", "light"}
#: Encodes the empty name in a list, and the empty text; a quoted name is never equal to it.
_EMPTY = "%"


def _flag(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read


def _names(text: str) -> list[str]:
    return ["" if name == _EMPTY else unquote(name) for name in text.split(",") if name]


def _write_names(names: list[str]) -> str:
    """Join names of columns with commas; commas and percent signs in a name are quoted."""
    return ",".join(name.replace("%", "%25").replace(",", "%2C") or _EMPTY for name in names)


def _runs(text: str) -> list[str]:
    names = [unquote(name, errors="strict") for name in text.split(",") if name]
    if len(names) > MAX_OVERLAY_RUNS:
        raise ValueError(text)
    return list(dict.fromkeys(names))


def _write_runs(names: list[str]) -> str:
    """Join names of runs with commas; special characters in a name are quoted."""
    return ",".join(quote(name, safe="/ ", errors="replace") for name in names)


def _between(kind: type[int] | type[float], low: float, high: float) -> Callable[[str], Any]:
    def read(text: str) -> float:
        value = kind(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return read


def _pairs(text: str) -> dict[str, str]:
    parted = [pair.partition(":") for pair in text.split(",") if pair]
    if not all(colon for _, colon, _ in parted):
        raise ValueError(text)
    return {unquote(name): unquote(value) for name, _, value in parted}


def _write_pairs(pairs: Mapping[str, str]) -> str:
    """Join names and texts as ``name:text,name:text``; these three characters are quoted in both."""
    each = (quote(part, safe="/ <>=", errors="replace") for pair in pairs.items() for part in pair)
    return ",".join(f"{name}:{text}" for name, text in zip(each, each, strict=True))


def _page(text: str) -> str:
    return "" if text == OVERVIEW else _one_of(*PAGES)(text)


def _question(text: str) -> str:
    _one_of(*QUESTIONS)(text.partition(":")[0])
    return text


def steps_at(text: str) -> tuple[int, int]:
    """Return the first and the last step of a choice such as ``12`` or ``10..20``.

    Raises
    ------
    ValueError
        If the text is neither a step nor two in their order.
    """
    first, _, last = text.partition("..")
    steps = int(first), int(last or first)
    if steps[0] > steps[1]:
        raise ValueError(text)
    return steps


def _samples_at(text: str) -> str:
    if text in (NEWEST, FIRST, BEST):
        return text
    first, last = steps_at(text)
    return str(first) if first == last else f"{first}..{last}"


@dataclass(frozen=True)
class UrlKey:
    """One key of the query string.

    Attributes
    ----------
    parameter : str
        Name of the parameter of the selection or of the display settings.
    default : object
        Value that the address leaves out.
    read : callable
        Returns the value of a text, or raises `ValueError`.
    write : callable
        Returns the text of a value.
    """

    parameter: str
    default: Any = ""
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str


def _write_flag(value: bool) -> str:
    return "1" if value else "0"


def _switch(parameter: str) -> UrlKey:
    return UrlKey(parameter, False, _flag, _write_flag)


KEYS = {
    "run": UrlKey("run"),
    "split": UrlKey("split"),
    "step": UrlKey("step", None, int),
    "sample": UrlKey("uid"),
    "token": UrlKey("token", -1, int),
    "turn": UrlKey("turn", None, _between(int, 0, 10**9)),
    "page": UrlKey("page", "", _page),
    "tab": UrlKey("tab", "", _one_of(*TABS)),
    "mode": UrlKey("mode", "text", _one_of(*MODES)),
    "metric": UrlKey("metric", "log_ratio"),
    "scale": UrlKey("scale", "run", _one_of(*SCALES)),
    "explain": UrlKey("explain", "", _question),
    "band": UrlKey("band", "", _one_of(*BANDS)),
    "curves": UrlKey("curves", [], _names, _write_names),
    "log": UrlKey("log_curves", [], _names, _write_names),
    "search": UrlKey("search"),
    "filter": UrlKey("filter"),
    "columns": UrlKey("columns", {}, _pairs, _write_pairs),
    "scope": UrlKey("scope", "step", _one_of("step", "run")),
    "sort": UrlKey("sort"),
    "over": UrlKey("overlay_runs", [], _runs, _write_runs),
    "beside": UrlKey("overlay_splits", [], _runs, _write_runs),
    "align": UrlKey("align", STEP, _one_of(STEP, SAMPLES, TIME)),
    "smooth": UrlKey("smooth", 0.0, _between(float, 0, MAX_SMOOTHING), "{:g}".format),
    "against": UrlKey("compared_run"),
    "here_at": UrlKey("samples_here", NEWEST, _samples_at),
    "there_at": UrlKey("samples_there", NEWEST, _samples_at),
    "finding": UrlKey("finding"),
    # The display settings: what a reader of the link must see alike.
    "variance_scale": UrlKey("variance_scale", 1.0, _between(float, 0.1, 1), "{:g}".format),
    "zero_shift": _switch("zero_shift"),
    "kl": UrlKey("kl_estimator", "kl_k3", _one_of("kl_k3", "kl_k2", "log_ratio", "kl_rllb")),
    "per_sequence": _switch("per_sequence"),
    "fold_templates": UrlKey("fold_templates", True, _flag, _write_flag),
    "pad_token": UrlKey(
        "pad_token", "<|pad|>", lambda text: "" if text == _EMPTY else text, lambda text: text or _EMPTY
    ),
    "system_end": UrlKey("system_end"),
    "max_samples": UrlKey("max_samples", 2048, _between(int, 8, 20_000)),
    "older_attempts": _switch("older_attempts"),
    "count_by": UrlKey("count_rewards", "episodes", _one_of("episodes", "rows")),
    "fold_episodes": _switch("fold_episodes"),
    "answer": UrlKey(
        "answer_rule", "auto", _one_of("auto", "boxed", "tag", "hash", "choice", "number", "line")
    ),
    "stuck_steps": UrlKey("stuck_steps", 3, _between(int, 1, 10_000)),
    # Read from old links, never written: the theme is the reader's own.
    "theme": UrlKey("dark", DARK_DEFAULT, _flag),
}


@dataclass(frozen=True)
class LinkProblem:
    """A part of a link that was ignored.

    Attributes
    ----------
    key : str
        Key of the query string; empty if the whole link is too long.
    text : str
        Beginning of the value.
    """

    key: str
    text: str


def read_query(query: str) -> tuple[dict[str, Any], list[LinkProblem]]:
    """Parse a query string; return the selection's parameters and what was ignored.

    Parameters
    ----------
    query : str
        With or without the leading ``?``.
    """
    values: dict[str, Any] = {}
    problems = []
    if len(query) > MAX_QUERY:
        return {}, [LinkProblem("", query[:40])]
    for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=False):
        key = KEYS.get(name)
        if key is None:
            continue
        try:
            values[key.parameter] = key.read(text)
        except ValueError:
            problems.append(LinkProblem(name, text[:40]))
    if "step" in values or "uid" in values:
        values["follow"] = False
    if values.get("compared_run"):
        values.setdefault("page", "compare")
    return values, problems


def write_query(values: Mapping[str, Any]) -> str:
    """Return the query string of a selection, without default values, theme and a followed step.

    Parameters
    ----------
    values : mapping
        Parameters of the selection and the display settings; missing ones have their defaults.
        With ``follow``, the step is left out.
    """
    unnamed = ("dark", *(("step", "uid", "token", "turn") if values.get("follow", True) else ()))
    pairs = []
    for name, key in KEYS.items():
        value = values.get(key.parameter, key.default)
        if value is not None and value != key.default and key.parameter not in unnamed:
            pairs.append((name, key.write(value)))
    if values.get("compared_run") and not values.get("page"):
        pairs.append(("page", OVERVIEW))
    return f"?{urlencode(pairs, errors='replace')}" if pairs else ""


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
    """Return the board's address of a selection.

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
    chosen: dict[str, Any] = {
        "run": run,
        "split": split,
        "uid": sample,
        "token": token,
        "filter": filter,
        "search": search,
        "sort": sort,
        "compared_run": against,
        "page": "compare" if against else "",
        "scope": "run" if whole_run and (filter or search or sort) else "step",
        "follow": whole_run,
    }
    chosen |= {} if step is None else {"step": step}
    chosen |= {"metric": metric} if metric else {}
    return f"{url.rstrip('/')}/{write_query(chosen)}"
