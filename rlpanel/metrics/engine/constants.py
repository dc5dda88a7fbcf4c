"""Training constants that formulas need (β, γ, λ, ε), each with its origin.

Rows of a log do not contain the coefficients of the loss. They come from the run's ``run.json``, else from
settings. Else β is inferred from the rows and displayed with its fit, and others have a usual value,
displayed as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlpanel.number_text import number

Origin = Literal["run.json", "setting", "inferred", "usual"]


@dataclass(frozen=True)
class KnownConstant:
    """Value and origin of a constant; ``note`` describes the fit if it was inferred."""

    name: str
    value: Any
    origin: Origin
    note: str = ""

    def __str__(self) -> str:
        value = number(self.value) if isinstance(self.value, float) else str(self.value)
        return f"{value} ({self.note or _ORIGINS[self.origin]})"


_ORIGINS = {
    "run.json": "from run.json",
    "setting": "from settings",
    "inferred": "inferred",
    "usual": "usual value, not logged",
}


@dataclass(frozen=True)
class DeclaredConstant:
    """A constant that formulas or readers need, with its names in ``run.json`` and its usual value."""

    name: str
    label: str
    help: str
    keys: tuple[str, ...] = ()
    usual: float | None = None


DECLARED: tuple[DeclaredConstant, ...] = (
    DeclaredConstant(
        "algo", "algorithm", "Algorithm or trainer that wrote the run.", ("algorithm", "trainer")
    ),
    DeclaredConstant(
        "kl_coef", "KL coefficient β", "Weight of the KL penalty in the reward or the loss.", ("beta",)
    ),
    DeclaredConstant(
        "kl_estimator", "KL estimator", "Estimator of the KL that the trainer uses.", ("estimator",)
    ),
    DeclaredConstant("gamma", "discount γ", "Discount factor of later rewards.", (), 1.0),
    DeclaredConstant(
        "lam",
        "GAE λ",
        "How far advantages look ahead: 0 for one token, 1 to the end of the response.",
        ("lambda", "lambda_", "gae_lambda"),
        0.95,
    ),
    DeclaredConstant(
        "epsilon", "clip range ε", "Distance of the ratio from 1 at which it is clipped.", ("cliprange",), 0.2
    ),
    DeclaredConstant(
        "epsilon_high", "upper clip range", "Upper clip range, if it differs from the lower one."
    ),
    DeclaredConstant(
        "reward_weights", "reward weights", "Weight of each reward function in the total reward."
    ),
    DeclaredConstant(
        "count_failed",
        "failed samples count",
        "1 if samples whose status is environment_error or discarded count as training samples.",
    ),
    DeclaredConstant(
        "pass_reward", "pass threshold", "A sample with at least this reward counts as solved.", (), 1.0
    ),
)
_NAMES = {key: d.name for d in DECLARED for key in (d.name, *d.keys)}
NAMES = frozenset(d.name for d in DECLARED)

#: Constants that columns computed at ingest depend on. If one changes, the run is read again.
AT_INGEST = ("kl_coef", "kl_estimator", "gamma", "lam", "epsilon", "epsilon_high", "count_failed")


#: Maximum number of reward functions whose weights are used, and maximum length of weights as text.
MAX_WEIGHTS, _TEXT = 1000, 200


class RewardWeights(dict[str, float]):
    """Weight of each reward function by its name; its text is cut, as runs may name many."""

    def __str__(self) -> str:
        return super().__repr__()[:_TEXT]


class Constants(Mapping[str, Any]):
    """Mapping of constants to values, for formulas; `by_name` also has their origins.

    Parameters
    ----------
    constants : tuple of KnownConstant
    logged : mapping, optional
        Whole content of the run's ``run.json``; it does not count in comparisons.
    """

    def __init__(
        self, constants: tuple[KnownConstant, ...] = (), logged: Mapping[str, Any] | None = None
    ) -> None:
        self.by_name = {constant.name: constant for constant in constants}
        self.logged: Mapping[str, Any] = logged or {}

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constants) and self.by_name == other.by_name

    def __hash__(self) -> int:
        return hash(tuple(sorted((name, str(constant)) for name, constant in self.by_name.items())))

    @property
    def at_ingest(self) -> tuple[Any, ...]:
        """Values of the constants in `AT_INGEST`."""
        return tuple(self.get(name) for name in AT_INGEST)

    def with_inferred(self, name: str, value: float, note: str) -> Constants:
        """Return these constants plus an inferred one; a given value is not replaced."""
        if name in self.by_name:
            return self
        inferred = KnownConstant(name, value, "inferred", note)
        return Constants((*self.by_name.values(), inferred), self.logged)


def gather_constants(logged: Mapping[str, Any], settings: Mapping[str, Any]) -> Constants:
    """Return the constants that are known before any row is read.

    Parameters
    ----------
    logged : mapping
        Content of the run's ``run.json``; unknown keys are ignored.
    settings : mapping
        Values by constant name; None if not set.
    """
    values: dict[str, KnownConstant] = {}
    for key, value in logged.items():
        name = _NAMES.get(key)
        if name and name not in values and (value := _usable(name, value)) is not None:
            values[name] = KnownConstant(name, value, "run.json")
    for name, value in settings.items():
        if name not in values and value is not None:
            values[name] = KnownConstant(name, value, "setting")
    for declared in DECLARED:
        if declared.name not in values and declared.usual is not None:
            values[declared.name] = KnownConstant(declared.name, declared.usual, "usual")
    return Constants(tuple(values[d.name] for d in DECLARED if d.name in values), logged)


def _usable(name: str, value: Any) -> Any:
    """Return the value in the constant's type; None if it has a wrong type."""
    if name == "reward_weights":
        return _weights(value)
    if name in {"algo", "kl_estimator"}:
        return value[:64] if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 else None  # integers may have too many digits for a float


def _weights(value: Any) -> Any:
    """Return weights by function; as text if they lack the functions' names or are not all numbers."""
    if isinstance(value, dict) and len(value) <= MAX_WEIGHTS and all(map(_is_weight, value.values())):
        return RewardWeights({str(function): float(weight) for function, weight in value.items()})
    return str(value)[:_TEXT] if isinstance(value, (list, tuple, dict)) else None


def _is_weight(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


#: Constants of a run that gives none.
USUAL_CONSTANTS = gather_constants({}, {})
