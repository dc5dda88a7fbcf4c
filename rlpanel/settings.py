"""Every setting once: name, default, bounds, help. Commands, docs and the side panel read it."""

from __future__ import annotations

import os
from typing import Any, Self

import param

from rlpanel.errors import SettingError

KL_ESTIMATORS = {"k3": "kl_k3", "k2": "kl_k2", "k1 (log-ratio)": "log_ratio", "rllb": "kl_rllb"}
BANDS = {
    "± 1σ": "std",
    "IQR": "iqr",
    "min–max": "range",
    "density": "density",
    "ridge": "ridge",
    "none": "none",
}
DARK_DEFAULT = True


class Display(param.Parameterized):
    """What a viewer may turn; each browser session has its own."""

    band = param.Selector(
        default="std",
        objects=BANDS,
        label="Band",
        doc="What is shown around a mean: a band, every value's density at each step, or ridges.",
    )
    log_values = param.Boolean(
        default=False,
        label="Log values",
        doc="Logarithmic values in densities and ridges, for columns whose values are mostly above 0.",
    )
    variance_scale = param.Number(
        default=1.0,
        bounds=(0.1, 1.0),
        step=0.1,
        label="Variance scaling",
        doc="Factor on the half-width of a ±1σ band, for runs whose spread hides the mean.",
    )
    zero_shift = param.Boolean(
        default=False,
        label="Zero shift",
        doc="Shift each curve so that its first step stands at 0, to compare how far curves moved.",
    )
    kl_estimator = param.Selector(
        default="kl_k3",
        objects=KL_ESTIMATORS,
        label="KL estimator",
        doc="Which estimate of KL(policy || reference) the curves, grid and tokens show. rllb is the "
        "number that RLLoggingBoard calls KL; it estimates something else.",
    )
    per_sequence = param.Boolean(
        default=False,
        label="KL per sequence",
        doc="Sum over the response's tokens instead of the mean per token.",
    )
    pad_token = param.String(
        default="<|pad|>", label="Pad token", doc="Dropped from shown texts; empty keeps all."
    )
    system_end = param.String(
        default="",
        label="System prompt ends",
        doc="Marker after which the prompt begins, for example <|im_end|>; what stands before its "
        "first occurrence is folded away.",
    )
    max_samples = param.Integer(
        default=2048,
        bounds=(8, 20_000),
        label="Max samples a step",
        doc="How many samples of a step the grid and the token ranking show, drawn reproducibly by "
        "uid. Statistics and distributions always use all.",
    )
    older_attempts = param.Boolean(
        default=False,
        label="Older attempts",
        doc="Show in the grid, too, the samples that a restart of the training job replaced. Statistics "
        "use the newest attempt.",
    )
    stuck_steps = param.Integer(
        default=3,
        bounds=(1, 10_000),
        label="Never better after",
        doc="Steps that a prompt must have been seen at before it counts as one that never gets better.",
    )


class _FromEnvironment(param.Parameterized):
    """Settings of the process. ``RLPANEL_<NAME>`` in the environment sets one."""

    @classmethod
    def from_environment(cls, **values: Any) -> Self:
        """Settings from ``RLPANEL_*`` variables, overridden by ``values``.

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
    """What formulas need to know of the training where the run's ``run.json`` does not say it."""

    kl_coef = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Coefficient β of the KL penalty. Without it, it is read off the token rewards where they are "
        "logged, and shown with its fit.",
    )
    gamma = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1.0),
        doc="Discount γ of advantages and returns that are not logged; 1 where nothing says otherwise.",
    )
    lam = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1.0),
        doc="GAE's λ of advantages and returns that are not logged; 0.95 where nothing says otherwise.",
    )
    epsilon = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Clip range ε of the ratio; 0.2 where nothing says otherwise.",
    )
    epsilon_high = param.Number(
        default=None,
        allow_None=True,
        bounds=(0.0, 1e6),
        doc="Upper clip range, where it differs from the lower one.",
    )
    pass_reward = param.Number(
        default=None,
        allow_None=True,
        bounds=(-1e12, 1e12),
        doc="A sample with at least this reward counts as solved, for pass@k; 1 where nothing says "
        "otherwise.",
    )

    def given(self) -> dict[str, float]:
        """The settings that were set."""
        return {
            name: value for name, value in self.param.values().items() if name != "name" and value is not None
        }


def _share(default: float, doc: str) -> param.Number:
    return param.Number(default=default, bounds=(0.0, 1.0), doc=doc)


class FindingSettings(_FromEnvironment):
    """From where on a rule makes a finding. ``RLPANEL_<NAME>`` in the environment sets one."""

    truncated_share = _share(0.95, "Share of cut responses in a step.")
    zero_variance_share = _share(0.8, "Share of groups with one and the same reward.")
    duplicate_share = _share(0.5, "Share of a step's responses that repeat another.")
    surprisal_share = _share(0.25, "Surprisal as a share of that of the first five steps.")
    rise = _share(0.1, "By how much a share rises above that of the first five steps.")
    length_correlation = _share(0.5, "Correlation of length and reward.")
    kl_factor = param.Number(
        default=10.0, bounds=(1.0, 1e6), doc="KL k3 as a multiple of the median of the steps before."
    )
    ratio_low = param.Number(default=0.5, bounds=(0.0, 1.0), doc="Lowest mean importance ratio of a step.")
    ratio_high = param.Number(default=2.0, bounds=(1.0, 1e6), doc="Highest mean importance ratio of a step.")
    engine_mismatch = param.Number(
        default=1.05, bounds=(1.0, 1e6), doc="Mean of exp|trainer's logprob − engine's|."
    )
    outlier_z = param.Number(
        default=6.0, bounds=(1.0, 1e6), doc="Robust deviations of a step's number from the steps before."
    )
    quiet_factor = param.Number(
        default=3.0, bounds=(1.0, 1e6), doc="Time without a line as a multiple of the median time of a step."
    )


class Alerts(_FromEnvironment):
    """Where findings go by themselves. ``RLPANEL_<NAME>`` in the environment sets one."""

    alert_url = param.String(default="", doc="Address that takes findings as JSON posts.")
    alert_header = param.String(
        default="",
        doc="A header of those posts, such as `Authorization: Bearer …`. There is no flag for it: others can "
        "read what stands on a command line.",
    )
    alert_command = param.String(
        default="", doc="Command that is run for each finding and gets it as JSON on its standard input."
    )
    alert_severity = param.Selector(
        default="warning",
        objects={"warning": "warning", "alarm": "alarm"},
        doc="The mildest finding that goes out.",
    )
    alert_board = param.String(
        default="",
        doc="Address at which those who are alerted reach the board, for links; else the server's own.",
    )


class Watching(_FromEnvironment):
    """Which runs a server follows. ``RLPANEL_<NAME>`` in the environment sets one."""

    watch = param.Boolean(
        default=None,
        allow_None=True,
        doc="Follow all runs that are being written, whether a page shows them or not, so that `/health` and "
        "`/metrics` speak for all of them. Where it is not set: on with alerts, else off.",
    )


class Reading(_FromEnvironment):
    """How the reader behaves; one for the process. ``RLPANEL_<NAME>`` in the environment sets one."""

    polling = param.Boolean(
        default=False, doc="Look at the files on a clock instead of waiting for file events."
    )
    poll_interval = param.Number(
        default=0.25, bounds=(0.02, 60.0), doc="Seconds between two looks when polling."
    )
    remote_interval = param.Number(
        default=15.0,
        bounds=(0.05, 3600.0),
        doc="Seconds between two looks at a folder on another machine (s3://…); after a request that failed "
        "the rest begins with as many and doubles.",
    )
    rescan_interval = param.Number(
        default=2.0,
        bounds=(0.1, 600.0),
        doc="Seconds between two looks at the folder even where file events arrive.",
    )
    debounce = param.Number(
        default=0.04,
        bounds=(0.0, 2.0),
        doc="Seconds between two reads while file events keep coming.",
    )
    turn_bytes = param.Integer(
        default=4 << 20,
        bounds=(1 << 10, 1 << 30),
        doc="Bytes taken from one file in one turn, so that a backlog never starves a live line.",
    )
    jobs = param.Integer(
        default=2,
        bounds=(0, 64),
        doc="Processes that help to read a big backlog; with 0 the reader's thread does it alone.",
    )
    backlog_bytes = param.Integer(
        default=64 << 20,
        bounds=(1, 1 << 50),
        doc="Unread bytes of a run from which on its long files are read in ranges, newest first.",
    )
    line_bytes = param.Integer(
        default=64 << 20,
        bounds=(1 << 10, 1 << 32),
        doc="Longest line that is parsed; a longer one is counted as bad.",
    )
    map = param.String(
        default="",
        doc="Which key of the lines is which, for logs in no known dialect: prompt=input,response=output. "
        "An rlpanel.toml beside a run goes before it.",
    )
    tokenizer = param.String(
        default="", doc="A tokenizer.json that gives the texts of token ids logged without them."
    )
    follow_links = param.Boolean(
        default=False,
        doc="Follow links that lead out of the root, where they belong to the user who runs the board.",
    )
    cache = param.Boolean(
        default=True,
        doc="Keep a run's index on disk, so that it opens at once: in the folder .rlpanel beside the logs, "
        "or in the user's cache folder where that cannot be written or is another user's.",
    )


def _parse(name: str, text: str, parameter: param.Parameter) -> Any:
    """The environment's text as the parameter's type."""
    if isinstance(parameter, param.Boolean):
        if parameter.allow_None and not text.strip():
            return None
        return text.strip().lower() in {"1", "true", "yes", "on"}
    if isinstance(parameter, param.String | param.Selector):
        return text
    try:
        return int(text) if isinstance(parameter, param.Integer) else float(text)
    except ValueError as error:
        raise SettingError(f"RLPANEL_{name.upper()}={text!r} is not a number") from error
