"""Constants of the training: their values and the source of each."""

from __future__ import annotations

import math

import pytest

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.settings import Training


def test_the_run_itself_comes_before_settings_and_these_before_usual_values() -> None:
    known = gather_constants({"gamma": 0.9}, {"gamma": 0.8, "lam": 0.7}).by_name
    assert [(known[n].value, known[n].origin) for n in ("gamma", "lam", "epsilon")] == [
        (0.9, "run.json"), (0.7, "setting"), (0.2, "usual"),
    ]  # fmt: skip


def test_a_coefficient_is_never_assumed() -> None:
    assert "kl_coef" not in gather_constants({}, {})


def test_an_inferred_value_gives_way_to_one_that_was_given() -> None:
    known = gather_constants({"beta": 0.1}, {}).with_inferred("kl_coef", 0.5, "fit")
    assert (known["kl_coef"], known.by_name["kl_coef"].origin) == (0.1, "run.json")


@pytest.mark.parametrize(
    ("key", "name"),
    [("beta", "kl_coef"), ("cliprange", "epsilon"), ("gae_lambda", "lam"), ("trainer", "algo")],
)
def test_trainers_own_names_are_understood(key: str, name: str) -> None:
    value = "PPOTrainer" if name == "algo" else 0.5
    assert gather_constants({key: value}, {})[name] == value


def test_each_value_says_where_it_comes_from() -> None:
    known = gather_constants({"beta": 0.05, "reward_weights": {"a": 1.0}}, {}).by_name
    assert [str(known[name]) for name in ("kl_coef", "reward_weights", "gamma")] == [
        "0.05 (from run.json)", "{'a': 1.0} (from run.json)", "1 (usual value, not logged)",
    ]  # fmt: skip


def test_reward_weights_are_numbers_by_function() -> None:
    weights = gather_constants({"reward_weights": {"a": 1, "b": 0.5}}, {})["reward_weights"]
    assert weights == {"a": 1.0, "b": 0.5}
    many = gather_constants({"reward_weights": {f"f{at}": 1 for at in range(1000)}}, {})["reward_weights"]
    assert (len(many), len(str(many))) == (1000, 200)


@pytest.mark.parametrize("given", [[1.0, 0.5], {"a": "half"}, {"a": True}, {"a": math.nan}, {"a": 10**400}])
def test_weights_without_functions_or_numbers_are_only_text(given: object) -> None:
    assert gather_constants({"reward_weights": given}, {})["reward_weights"] == str(given)[:200]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_KL_COEF", "0.25")
    assert Training.from_environment().given() == {"kl_coef": 0.25}


def test_a_setting_out_of_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_GAMMA", "1.5")
    with pytest.raises(SettingError):
        Training.from_environment()
