"""The board's address: each key of its query string, and the address of a run, step, sample or filter.

The board reads and writes it for its selection (`rlpanel.panels.session.context.Selection`); commands,
agents and alerts write it for people. It imports no third party, so that a command writes a link at once.

Keys are read one by one: a value that cannot be read is ignored and reported, the others are applied. The
name of a run is always text, even if it looks like a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from rlpanel.errors import SettingError
from rlpanel.url_values import (
    ANY_TEXT,
    FLAG,
    INTEGER,
    NAMES,
    PAIRS,
    SPAN,
    TEXT,
    ValueForm,
    between,
    one_of,
    run_names,
    some_of,
)

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
TABS = ("conversation", "tokens", "reference", "diff", "group", "prompt", "tree", "judging")
#: Page that the address names only where a link would open another one: beside a comparison of runs.
OVERVIEW = "overview"
#: The table of all runs, which is about no single one.
RUNS_PAGE = "table"
#: All other pages of the run.
PAGES = (
    RUNS_PAGE,
    "samples",
    "sample",
    "rollouts",
    "update",
    "prompts",
    "lint",
    "compare",
    "explain",
    "timeline",
    "ranking",
    "drift",
    "flight",
    "investigations",
    "failures",
)
#: How the conversation shows texts.
MODES = ("text", "raw", "tokens")
#: What the colour scale of token metrics is taken from.
SCALES = ("run", "step", "sample")
#: What curves show around the mean; none in the address: what the display settings say.
BANDS = ("auto", "se", "iqr", "std", "range", "density", "ridge", "none")
#: Classes of the page *Prompts*, and two further choices of its list.
PROMPT_CLASSES = (
    *("learnt", "forgotten", "flickers", "never", "always", "steady", "seldom", "below", "all"),
)
#: Questions of the page *Explain*; what a question needs besides stands behind a colon.
QUESTIONS = ("shares", "bisect", "contrast", "repeats", "scatter")
#: Chips of the table of runs: by their findings, and by their state.
RUN_CHIPS = ("with", "without", "unchecked", "unread", "live", "quiet", "finished", "stopped")
#: Choices of a ranked token's minimum count: means of few occurrences are noise.
MIN_COUNTS = (1, 3, 10, 30, 100, 300, 1000)


def _page(text: str) -> str:
    return "" if text == OVERVIEW else one_of(*PAGES).read(text)


def _question(text: str) -> str:
    one_of(*QUESTIONS).read(text.partition(":")[0])
    return text


def _least(text: str) -> int:
    return MIN_COUNTS[MIN_COUNTS.index(int(text))]


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


def _steps(text: str) -> str:
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
    form : ValueForm
        How the value is written.
    page : str
        Page that alone shows it; the addresses of all others leave it out. Empty: any.
    """

    parameter: str
    default: Any = ""
    form: ValueForm = TEXT
    page: str = ""


_SAMPLES_AT = one_of(NEWEST, FIRST, BEST, also=_steps)
#: Key → what it stands for, in the order of the address. A new one is a line here, a parameter of the
#: selection or the display settings, and a step in the round trip of `tests/ui/test_address.py`.
KEYS = {
    "run": UrlKey("run"),
    "split": UrlKey("split"),
    "step": UrlKey("step", None, INTEGER),
    "sample": UrlKey("uid"),
    "token": UrlKey("token", -1, INTEGER),
    "turn": UrlKey("turn", None, between(int, 0, 10**9)),
    "page": UrlKey("page", "", ValueForm(_page)),
    "tab": UrlKey("tab", "", one_of(*TABS)),
    "mode": UrlKey("mode", "text", one_of(*MODES)),
    "metric": UrlKey("metric", "log_ratio"),
    "scale": UrlKey("scale", "run", one_of(*SCALES)),
    "diff": UrlKey("diff"),
    "pair": UrlKey("pair"),
    "explain": UrlKey("explain", "", ValueForm(_question)),
    "loss": UrlKey("loss"),
    "rank": UrlKey("ranked_by"),
    "least": UrlKey("ranked_least", 3, ValueForm(_least)),
    "class": UrlKey("prompt_class", "", one_of(*PROMPT_CLASSES), page="prompts"),
    "category": UrlKey("prompt_category", page="prompts"),
    "band": UrlKey("band", "", one_of(*BANDS)),
    "curves": UrlKey("curves", [], NAMES),
    "log": UrlKey("log_curves", [], NAMES),
    "zoom": UrlKey("zoom", None, SPAN),
    "search": UrlKey("search"),
    "filter": UrlKey("filter"),
    "columns": UrlKey("columns", {}, PAIRS),
    "scope": UrlKey("scope", "step", one_of("step", "run")),
    "sort": UrlKey("sort"),
    "over": UrlKey("overlay_runs", [], run_names(MAX_OVERLAY_RUNS)),
    "beside": UrlKey("overlay_splits", [], run_names(MAX_OVERLAY_RUNS)),
    "align": UrlKey("align", STEP, one_of(STEP, SAMPLES, TIME)),
    "smooth": UrlKey("smooth", 0.0, between(float, 0, MAX_SMOOTHING)),
    "against": UrlKey("compared_run"),
    "here_at": UrlKey("samples_here", NEWEST, _SAMPLES_AT),
    "there_at": UrlKey("samples_there", NEWEST, _SAMPLES_AT),
    "finding": UrlKey("finding"),
    # The table of runs.
    "runs": UrlKey("runs_filter", page=RUNS_PAGE),
    "runs_by": UrlKey("runs_sort", page=RUNS_PAGE),
    "runs_only": UrlKey("runs_chips", [], some_of(*RUN_CHIPS), page=RUNS_PAGE),
    "folders": UrlKey("runs_folders", True, FLAG, page=RUNS_PAGE),
    "runs_per": UrlKey("runs_group", page=RUNS_PAGE),
    "runs_axes": UrlKey("runs_axes", False, FLAG, page=RUNS_PAGE),
    # The display settings: what a reader of the link must see alike.
    "variance_scale": UrlKey("variance_scale", 1.0, between(float, 0.1, 1)),
    "zero_shift": UrlKey("zero_shift", False, FLAG),
    "events": UrlKey("run_events", True, FLAG),
    "kl": UrlKey("kl_estimator", "kl_k3", one_of("kl_k3", "kl_k2", "log_ratio", "kl_rllb")),
    "per_sequence": UrlKey("per_sequence", False, FLAG),
    "fold_templates": UrlKey("fold_templates", True, FLAG),
    "pad_token": UrlKey("pad_token", "<|pad|>", ANY_TEXT),
    "system_end": UrlKey("system_end"),
    "max_samples": UrlKey("max_samples", 2048, between(int, 8, 20_000)),
    "older_attempts": UrlKey("older_attempts", False, FLAG),
    "count_by": UrlKey("count_rewards", "episodes", one_of("episodes", "rows")),
    "fold_episodes": UrlKey("fold_episodes", False, FLAG),
    "answer": UrlKey(
        "answer_rule", "auto", one_of("auto", "boxed", "tag", "hash", "choice", "number", "line")
    ),
    "stuck_steps": UrlKey("stuck_steps", 3, between(int, 1, 10_000)),
    # Read from old links, never written: the theme is the reader's own.
    "theme": UrlKey("dark", DARK_DEFAULT, FLAG),
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
            values[key.parameter] = key.form.read(text)
        except ValueError:
            problems.append(LinkProblem(name, text[:40]))
    if "step" in values or "uid" in values:
        values["follow"] = False
    if values.get("compared_run"):
        values.setdefault("page", "compare")
    return values, problems


def shown_view(address: str) -> dict[str, Any]:
    """Return the selection of an address that somebody else chose; unlike a link's, nothing of it is ignored.

    Parameters
    ----------
    address : str
        The part of the board's address behind the host, such as ``?step=12&page=samples``.

    Raises
    ------
    SettingError
        If it names a host or a path, or has a key or a value that the board does not know.
    """
    query = address.strip().removeprefix("/")
    if query and not query.startswith("?"):
        raise SettingError("give the part of the board's address behind the host: ?run=exp1&step=12")
    try:
        pairs = parse_qsl(query[1:], keep_blank_values=True, strict_parsing=True) if query[1:] else []
    except ValueError as error:
        raise SettingError("the address has a part without a value") from error
    for name, _ in pairs:
        if name not in KEYS or name == "theme":
            raise SettingError(f"the board's address has no key {name[:40]!r}; it has {', '.join(KEYS)}")
    values, problems = read_query(query)
    if problems:
        wrong = problems[0]
        said = (
            f"{wrong.key} has no valid value" if wrong.key else f"it has more than {MAX_QUERY:,} characters"
        )
        raise SettingError(f"the address cannot be shown: {said}")
    return values


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
        value, applies = values.get(key.parameter, key.default), key.page in ("", values.get("page"))
        if value is not None and value != key.default and key.parameter not in unnamed and applies:
            pairs.append((name, key.form.write(value)))
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
