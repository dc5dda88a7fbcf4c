from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rlpanel.metrics.token_tally import TokenTally


def tally(*samples: tuple[list[str], list[float]], keep: list[bool] | None = None) -> TokenTally:
    made = TokenTally()
    for number, (tokens, values) in enumerate(samples):
        kept = np.array(keep if keep is not None else [True] * len(tokens))
        made.add(number, tokens, {"kl": np.array(values, float)}, kept)
    return made


def test_the_highest_mean_comes_first_with_its_count_and_its_largest_place() -> None:
    found = tally((["a", "b", "a"], [1.0, 5.0, 3.0]), (["b", "a"], [1.0, 2.0])).ranking("kl")
    assert found == [
        ("b", 2, 3.0, 5.0, ((0, 1), (1, 0))),
        ("a", 3, 2.0, 3.0, ((0, 2), (1, 1), (0, 0))),
    ]


def test_rare_tokens_are_left_out() -> None:
    found = tally((["a", "b", "a"], [1.0, 5.0, 3.0])).ranking("kl", least=2)
    assert [ranked.token for ranked in found] == ["a"]


def test_what_is_not_finite_or_not_kept_does_not_count() -> None:
    values = [1.0, np.nan, np.inf, 9.0]
    found = tally((["a", "a", "a", "a"], values), keep=[True, True, True, False]).ranking("kl")
    assert found == [("a", 1, 1.0, 1.0, ((0, 0),))]


def test_values_of_another_length_are_left_out() -> None:
    assert tally((["a", "b"], [1.0])).measures == ()


def test_a_copy_goes_its_own_way() -> None:
    first = tally((["a"], [1.0]))
    second = first.copy()
    second.add(1, ["a", "b"], {"kl": np.array([3.0, 5.0])}, np.ones(2, bool))
    assert (first.tokens, first.ranking("kl")) == (1, [("a", 1, 1.0, 1.0, ((0, 0),))])
    assert (second.tokens, second.ranking("kl")) == (
        3,
        [
            ("b", 1, 5.0, 5.0, ((1, 1),)),
            ("a", 2, 2.0, 3.0, ((1, 0), (0, 0))),
        ],
    )


def test_many_samples_agree_with_pandas() -> None:
    chance = np.random.default_rng(0)
    samples = [
        ([f"t{n}" for n in chance.zipf(1.5, 200) % 500], chance.normal(size=200).tolist()) for _ in range(50)
    ]
    frame = pd.DataFrame(
        [(token, value, n, at) for n, (tokens, values) in enumerate(samples)
         for at, (token, value) in enumerate(zip(tokens, values, strict=True))],
        columns=["token", "value", "sample", "at"],
    )  # fmt: skip
    wanted = frame.groupby("token").value.agg(["count", "mean", "max"])
    largest = frame.sort_values("value", ascending=False, kind="stable").groupby("token").head(3)
    found = tally(*samples).ranking("kl", most=1000)
    assert len(found) == len(wanted)
    assert [ranked.mean for ranked in found] == sorted((ranked.mean for ranked in found), reverse=True)
    for ranked in found:
        row, places = wanted.loc[ranked.token], largest[largest.token == ranked.token]
        assert (ranked.seen, ranked.most) == (row["count"], row["max"])
        assert ranked.mean == pytest.approx(row["mean"], abs=1e-12)
        assert list(ranked.places) == list(zip(places["sample"], places["at"], strict=True))
