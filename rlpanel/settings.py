"""Declares the settings of the process with default, bounds and help, for commands and documentation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import param

from rlpanel.errors import SettingError


class _FromEnvironment(param.Parameterized):
    """Settings of the process; environment variables ``RLPANEL_<NAME>`` set them."""

    @classmethod
    def from_environment(cls, **values: Any) -> Self:
        """Return settings from ``RLPANEL_*`` variables, overridden by ``values``.

        Raises
        ------
        SettingError
            If a value has the wrong type or is out of bounds.
        """
        for name in cls.param:
            text = os.environ.get(f"RLPANEL_{name.upper()}")
            if name == "name" or text is None or name in values:
                continue
            values[name] = _parse(name, text, cls.param[name])
        try:
            return cls(**values)
        except (ValueError, TypeError) as error:
            raise SettingError(str(error)) from error


class Training(_FromEnvironment):
    """Constants of the training that formulas need, for runs whose ``run.json`` lacks them."""

    kl_coef = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Coefficient β of the KL penalty. If not set, it is estimated from the token rewards, if "
        "they are logged, and shown with its fit.",
    )
    gamma = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1.0),
        doc="Discount γ for advantages and returns that are not logged; 1 by default.",
    )
    lam = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1.0),
        doc="GAE's λ for advantages and returns that are not logged; 0.95 by default.",
    )
    epsilon = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Clip range ε of the ratio; 0.2 by default.",
    )
    epsilon_high = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Upper clip range of the ratio, if it differs from the lower one.",
    )
    count_failed = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1.0),
        doc="1: samples whose status is environment_error or discarded count as training samples. By "
        "default they are in the split discarded, and their shares are curves.",
    )
    pass_reward = param.Number(
        default=None,
        allow_None=True,
        bounds=(-1e12, 1e12),
        doc="Minimum reward of a sample that counts as solved, for pass@k; 1 by default.",
    )

    def given(self) -> dict[str, float]:
        """Return the constants that were set, by name."""
        return {
            name: value for name, value in self.param.values().items() if name != "name" and value is not None
        }


def _share(default: float, doc: str) -> param.Number:
    return param.Number(default=default, bounds=(0.0, 1.0), doc=doc)


class FindingSettings(_FromEnvironment):
    """Thresholds of the finding rules; environment variables ``RLPANEL_<NAME>`` set them."""

    truncated_share = _share(0.95, "Minimum share of truncated responses in a step.")
    zero_variance_share = _share(0.8, "Minimum share of groups whose samples all have the same reward.")
    duplicate_share = _share(0.5, "Minimum share of a step's responses that repeat another one.")
    surprisal_share = _share(
        0.25, "Surprisal as a fraction of the first five steps' surprisal; lower values make a finding."
    )
    rise = _share(0.1, "Minimum rise of a share above its level in the first five steps.")
    change_z = param.Number(
        default=5.0,
        bounds=(3.0, 1e6),
        doc="Smallest sustained change, in standard errors of the difference of two windows.",
    )
    missing_share = _share(0.05, "Minimum share of samples without a reward.")
    length_correlation = _share(0.5, "Minimum correlation of length and reward.")
    kl_factor = param.Number(
        default=10.0, bounds=(1.0, 1e6), doc="KL k3 as a multiple of its median over the previous steps."
    )
    ratio_low = param.Number(
        default=0.5, bounds=(0.0, 1.0), doc="Mean importance ratio of a step below which there is a finding."
    )
    ratio_high = param.Number(
        default=2.0, bounds=(1.0, 1e6), doc="Mean importance ratio of a step above which there is a finding."
    )
    engine_mismatch = param.Number(
        default=1.05,
        bounds=(1.0, 1e6),
        doc="Mean of exp|trainer's logprob − engine's logprob| above which there is a finding.",
    )
    outlier_z = param.Number(
        default=6.0,
        bounds=(1.0, 1e6),
        doc="Robust z-score of a step's value, relative to the previous steps.",
    )
    turns_factor = param.Number(
        default=1.5,
        bounds=(1.0, 1e6),
        doc="Number of turns before a fall, as a multiple of that after it.",
    )
    max_lag = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e12),
        doc="Largest lag in versions, for runs whose `run.json` has no bound; if not set, none is checked.",
    )
    quiet_factor = param.Number(
        default=3.0,
        bounds=(1.0, 1e6),
        doc="Time without a new line, as a multiple of the median duration of a step.",
    )


class Alerts(_FromEnvironment):
    """Recipients and links of alerts; environment variables ``RLPANEL_<NAME>`` set them."""

    alert_url = param.String(default="", doc="URL to which findings are sent as JSON POST requests.")
    alert_header = param.String(
        default="",
        doc="A header of these requests, such as `Authorization: Bearer …`. There is no command-line "
        "option for it, because other users can read command lines.",
    )
    alert_format = param.Selector(
        default="auto",
        objects={
            "auto": "auto",
            "json": "json",
            "feishu": "feishu",
            "dingtalk": "dingtalk",
            "wecom": "wecom",
        },
        doc="Format of the requests; `auto` knows the robots of Feishu, DingTalk and WeCom by their host.",
    )
    alert_secret = param.String(
        default="",
        doc="Secret by which a robot of Feishu or DingTalk checks signatures; not a command-line option.",
    )
    alert_command = param.String(
        default="",
        doc="Command that is run for each finding, with the finding as JSON on its standard input.",
    )
    alert_severity = param.Selector(
        default="warning",
        objects={"warning": "warning", "alarm": "alarm"},
        doc="Minimum severity of findings that are sent.",
    )
    alert_board = param.String(
        default="",
        doc="URL of the board for links in alerts; by default the server's own address.",
    )


class Watching(_FromEnvironment):
    """Sets whether a server follows all runs, also by an environment variable ``RLPANEL_<NAME>``."""

    watch = param.Boolean(
        default=None,
        allow_None=True,
        doc="Follow all runs that are being written, even if no page shows them, so that `/health`, "
        "`/metrics` and the marks of the run list cover all of them. If not set: on with alerts, else off.",
    )
    check = param.Boolean(
        default=True,
        doc="Read and check the other runs below the root in the background while a page is open and nothing "
        "else is read, the newest first, so that the table of runs shows their findings.",
    )


class Reading(_FromEnvironment):
    """Settings of the process's file reader; environment variables ``RLPANEL_<NAME>`` set them."""

    polling = param.Boolean(
        default=False, doc="Check files at regular intervals instead of waiting for file events."
    )
    poll_interval = param.Number(
        default=0.25, bounds=(0.02, 60.0), doc="Seconds between two checks when polling."
    )
    remote_interval = param.Number(
        default=15.0,
        bounds=(0.05, 3600.0),
        doc="Most seconds between two checks of a remote folder (s3://…); 3 seconds while it changes, and "
        "later a twentieth of the time since its last change. After a failed request, the next one waits as "
        "long, and the wait doubles with each further failure.",
    )
    index = param.String(
        default="",
        doc="Folder or S3 URL with indexes that `rlpanel index RUN --publish PLACE` has published; a run "
        "without an index of its own starts from there.",
    )
    rescan_interval = param.Number(
        default=2.0,
        bounds=(0.1, 600.0),
        doc="Seconds between two scans of the folder, even if file events arrive.",
    )
    debounce = param.Number(
        default=0.04,
        bounds=(0.0, 2.0),
        doc="Minimum seconds between two reads while file events arrive.",
    )
    line_rest = param.Number(
        default=3.0,
        bounds=(0.05, 3600.0),
        doc="Seconds for which a file must not grow until its last line is read although its newline is "
        "missing, and until a file that was rewritten with fewer samples replaces its former content. "
        "Commands that read a run once do not wait.",
    )
    turn_bytes = param.Integer(
        default=4 << 20,
        bounds=(1 << 10, 1 << 30),
        doc="Bytes read from one file before the next file is read: a backlog must not delay new lines.",
    )
    jobs = param.Integer(
        default=2,
        bounds=(0, 64),
        doc="Worker processes that help to read a large backlog; 0 means that only the reader thread reads.",
    )
    backlog_bytes = param.Integer(
        default=64 << 20,
        bounds=(1, 1 << 50),
        doc="Unread bytes of a run above which its long files are read in ranges, newest range first.",
    )
    line_bytes = param.Integer(
        default=64 << 20,
        bounds=(1 << 10, 1 << 32),
        doc="Maximum length of a line that is parsed; a longer line counts as bad.",
    )
    map = param.String(
        default="",
        doc="Mapping of fields to keys of the lines, for logs in an unknown format: "
        "prompt=input,response=output. An integer is the step of all lines: step=0. An rlpanel.toml in the "
        "run's folder takes precedence.",
    )
    step = param.Integer(
        default=None,
        allow_None=True,
        bounds=(1 - 2**53, 2**53 - 1),
        doc="Step of files that give none: neither their lines nor the names of file and folders. An "
        "rlpanel.toml in the run's folder takes precedence.",
    )
    tokenizer = param.String(
        default="", doc="Path of a tokenizer.json, for the texts of token ids that were logged without texts."
    )
    follow_links = param.Boolean(
        default=False,
        doc="Follow links to places outside the root if they belong to the user who runs the board.",
    )
    cache = param.Boolean(
        default=True,
        doc="Keep a run's index on disk, so that the run opens quickly: in the folder .rlpanel next to the "
        "logs, or in the user's cache folder if .rlpanel is not writable or belongs to another user.",
    )

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        #: Path of a folder → mapping that the board's form opened it with; before an rlpanel.toml, not saved.
        self.opened_with: dict[str, Mapping[str, str | int]] = {}


def _parse(name: str, text: str, parameter: param.Parameter) -> Any:
    """Parse the text of an environment variable as the parameter's type."""
    if isinstance(parameter, param.String | param.Selector):
        return text
    if parameter.allow_None and not text.strip():
        return None
    if isinstance(parameter, param.Boolean):
        return _parse_switch(name, text)
    try:
        return int(text) if isinstance(parameter, param.Integer) else float(text)
    except ValueError as error:
        raise SettingError(f"RLPANEL_{name.upper()}={text!r} is not a number") from error


#: Texts of an environment variable that turn a setting on or off; an empty one turns it off.
_SWITCHES = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off", ""), False
)


def _parse_switch(name: str, text: str) -> bool:
    switched = _SWITCHES.get(text.strip().lower())
    if switched is None:
        # A path, as in RLPANEL_CACHE=/scratch, must not turn the index off in silence.
        raise SettingError(f"RLPANEL_{name.upper()}={text!r} is neither on nor off: give 1 or 0")
    return switched


@dataclass(frozen=True)
class BacklogLimits:
    """Sizes and intervals for the unread bytes of a run that is opened.

    Attributes
    ----------
    range_bytes : int
        Bytes per range: few enough not to delay live lines, enough to be worth sending to a process.
    notice_seconds : float
        Seconds between two snapshots while only old lines are added.
    """

    range_bytes: int = 8 << 20
    notice_seconds: float = 0.5


@dataclass(frozen=True)
class CacheLimits:
    """Sizes for the index of a run on disk.

    Attributes
    ----------
    min_log_bytes : int
        Logs smaller than this are not cached: reading them is as fast as reading a cache.
    """

    min_log_bytes: int = 4 << 20


@dataclass(frozen=True)
class TableLimits:
    """Sizes for the rows of a run in memory.

    Attributes
    ----------
    dead_rows : int
        Rows of deleted lines that are kept before the columns are compacted.
    prepared_rows : int
        Rows of a run from which on the reader computes what each page needs, which else a page does.
    """

    dead_rows: int = 65_536
    prepared_rows: int = 500_000


@dataclass(frozen=True)
class BackfillLimits:
    """Sizes for columns that are computed later from lines of a cached run.

    Attributes
    ----------
    turn_seconds : float
        Seconds of one turn; live lines are read between two turns.
    batch_rows : int
        Rows that are read at a time.
    """

    turn_seconds: float = 0.05
    batch_rows: int = 256


@dataclass(frozen=True)
class SearchLimits:
    """Sizes and intervals of a search in the texts of a run.

    Attributes
    ----------
    block_bytes : int
        Bytes that are searched at a time: a block fits the CPU cache and takes too little time to notice.
    gap_bytes : int
        Gap between two wanted lines up to which reading on is better than seeking.
    first_samples : int
        Number of samples that a search from the newest ones on tests first.
    pause_seconds : float
        Seconds between two results.
    """

    block_bytes: int = 3 << 18
    gap_bytes: int = 64 << 10
    first_samples: int = 1024
    pause_seconds: float = 0.2


@dataclass(frozen=True)
class StoreLimits:
    """Sizes and intervals of the store that users need not change."""

    backlog: BacklogLimits = BacklogLimits()
    cache: CacheLimits = CacheLimits()
    table: TableLimits = TableLimits()
    backfill: BackfillLimits = BackfillLimits()
    search: SearchLimits = SearchLimits()


@dataclass(frozen=True)
class LiveRunLimits:
    """Sizes and intervals for runs that are followed without an open page.

    Attributes
    ----------
    interval : float
        Seconds between two checks of the root.
    live_seconds : float
        Seconds since the last write after which a run is no longer live.
    runs : int
        Maximum number of live runs that are followed.
    """

    interval: float = 5.0
    live_seconds: float = 3600.0
    runs: int = 64


@dataclass(frozen=True)
class CheckLimits:
    """Sizes and intervals for the checks of runs that nobody opened.

    Attributes
    ----------
    interval : float
        Seconds between two looks for runs to check while there are none, and before the first.
    seconds : float
        Maximum time of one run; waiting for the reader does not count.
    memory : int
        Maximum number of bytes of writable memory.
    again : float
        Minimum seconds between two checks of a run that grows.
    patience : float
        The same, as a multiple of the last check's duration.
    keep : float
        Seconds without a check after which the process ends.
    """

    interval: float = 2.0
    seconds: float = 120.0
    memory: int = 3 << 30
    again: float = 60.0
    patience: float = 10.0
    keep: float = 30.0


@dataclass(frozen=True)
class Limits:
    """Sizes and intervals of a runtime that users need not change; tests make them smaller.

    Attributes
    ----------
    stuck_seconds : float
        Seconds without a finished round after which the reader counts as hung, most likely in the file
        system.
    """

    store: StoreLimits = StoreLimits()
    live_runs: LiveRunLimits = LiveRunLimits()
    checks: CheckLimits = CheckLimits()
    stuck_seconds: float = 60.0


#: The values in use, except in tests.
DEFAULT_LIMITS = Limits()
