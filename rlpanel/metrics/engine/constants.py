"""What formulas need to know of the training, and where that is known from.

A log's rows lack the coefficients of the loss. They come from the run's own ``run.json``, else from settings,
else they are read off the rows and shown with their fit; where a usual value stands in, it is shown as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Origin = Literal["run.json", "setting", "inferred", "usual"]


@dataclass(frozen=True)
class KnownConstant:
    """One constant's value with its origin; ``note`` is the fit where it was inferred."""

    name: str
    value: Any
    origin: Origin
    note: str = ""

    def __str__(self) -> str:
        value = f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
        return f"{value} ({self.note or _ORIGINS[self.origin]})"


_ORIGINS = {
    "run.json": "from run.json",
    "setting": "from settings",
    "inferred": "inferred",
    "usual": "not logged: the usual value",
}


@dataclass(frozen=True)
class DeclaredConstant:
    """A constant that formulas or people ask for."""

    name: str
    label: str
    help: str
    keys: tuple[str, ...] = ()
    usual: float | None = None


DECLARED: tuple[DeclaredConstant, ...] = (
    DeclaredConstant("algo", "algorithm", "Which trainer wrote the run.", ("algorithm", "trainer")),
    DeclaredConstant(
        "kl_coef", "KL coefficient β", "Weight of the KL penalty in the reward or the loss.", ("beta",)
    ),
    DeclaredConstant(
        "kl_estimator", "KL estimator", "Which estimate of KL the trainer logs.", ("kl_logged", "estimator")
    ),
    DeclaredConstant("gamma", "discount γ", "Discount of later rewards.", (), 1.0),
    DeclaredConstant(
        "lam", "GAE λ", "How far advantages look ahead.", ("lambda", "lambda_", "gae_lambda"), 0.95
    ),
    DeclaredConstant(
        "epsilon", "clip range ε", "How far the ratio may go before it is clipped.", ("cliprange",), 0.2
    ),
    DeclaredConstant(
        "epsilon_high", "upper clip range", "The upper clip range, where it differs from the lower one."
    ),
    DeclaredConstant("reward_weights", "reward weights", "Weight of each reward function in the total."),
    DeclaredConstant(
        "pass_reward", "reward of a pass", "A sample with at least this reward counts as solved.", (), 1.0
    ),
)
_NAMES = {key: d.name for d in DECLARED for key in (d.name, *d.keys)}
NAMES = frozenset(d.name for d in DECLARED)

#: Constants that columns made at ingest depend on: another value means that the run is read again.
AT_INGEST = ("kl_coef", "gamma", "lam", "epsilon", "epsilon_high")


class Constants(Mapping[str, Any]):
    """Value by name, for formulas; `known` has the origins too.

    Parameters
    ----------
    known : iterable of KnownConstant
    """

    def __init__(self, known: tuple[KnownConstant, ...] = ()) -> None:
        self.known = {k.name: k for k in known}

    def __getitem__(self, name: str) -> Any:
        return self.known[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constants) and self.known == other.known

    def __hash__(self) -> int:
        return hash(tuple(sorted((name, str(k)) for name, k in self.known.items())))

    @property
    def at_ingest(self) -> tuple[Any, ...]:
        """The values that columns made at ingest depend on."""
        return tuple(self.get(name) for name in AT_INGEST)

    def inferring(self, name: str, value: float, note: str) -> Constants:
        """With a value read off the rows, where none was given."""
        if name in self.known:
            return self
        return Constants((*self.known.values(), KnownConstant(name, value, "inferred", note)))


def gather(logged: Mapping[str, Any], settings: Mapping[str, Any]) -> Constants:
    """What is known before a row is read.

    Parameters
    ----------
    logged : mapping
        The run's ``run.json``; keys that mean nothing here are left alone.
    settings : mapping
        By constant name; None where not set.
    """
    found: dict[str, KnownConstant] = {}
    for key, value in logged.items():
        name = _NAMES.get(key)
        if name and name not in found and (value := _usable(name, value)) is not None:
            found[name] = KnownConstant(name, value, "run.json")
    for name, value in settings.items():
        if name not in found and value is not None:
            found[name] = KnownConstant(name, value, "setting")
    for declared in DECLARED:
        if declared.name not in found and declared.usual is not None:
            found[declared.name] = KnownConstant(declared.name, declared.usual, "usual")
    return Constants(tuple(found[d.name] for d in DECLARED if d.name in found))


def _usable(name: str, value: Any) -> Any:
    """The value in the type that the constant has; None where it has another."""
    if name == "reward_weights":
        if isinstance(value, (list, tuple, dict)):
            return str(value)[:200]
        return None
    if name in {"algo", "kl_estimator"}:
        return value[:64] if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(float(value)) < 1e300 else None


#: What stands in where nothing is known.
USUAL = gather({}, {})
