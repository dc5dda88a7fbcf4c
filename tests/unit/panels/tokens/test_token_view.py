from __future__ import annotations

import numpy as np
import pytest

from rlpanel.panels.language.labels import CHINESE, ENGLISH, using
from rlpanel.panels.tokens.token_view import TokenComponent, TokenView
from rlpanel.schema import Sample

SAMPLE = Sample(uid="a:0", step=1, response_tokens=["a", "<|pad|>"], logprobs=np.array([-0.5, -1.0]))


def component(view: TokenView) -> TokenComponent:
    return view.__panel__()


def test_a_view_without_a_sample_says_so() -> None:
    assert component(TokenView()).data["state"] == "empty"


def test_a_new_sample_is_one_change_of_the_component() -> None:
    view = TokenView()
    changes = []
    component(view).param.watch(
        lambda *events: changes.append([event.name for event in events]), ["data", "dark"]
    )
    view.sample = SAMPLE
    assert changes == [["data"]]


@pytest.mark.parametrize(("name", "value"), [("metric", "prob"), ("token", 1), ("dark", False)])
def test_metric_token_and_theme_send_no_data(name: str, value: object) -> None:
    view = TokenView(sample=SAMPLE)
    before = component(view).data
    setattr(view, name, value)
    assert component(view).data is before
    assert getattr(component(view), name) == value


@pytest.mark.parametrize(("name", "value"), [("metric", "prob"), ("token", 1)])
def test_metric_and_token_come_back_from_the_browser(name: str, value: object) -> None:
    view = TokenView(sample=SAMPLE)
    setattr(component(view), name, value)
    assert getattr(view, name) == value


def test_the_wish_for_a_metric_outlives_a_sample_that_lacks_it() -> None:
    view = TokenView(sample=SAMPLE, metric="value")
    view.sample = None
    assert view.metric == "value"


def test_the_pad_token_is_a_kind_of_its_own() -> None:
    view = TokenView(sample=SAMPLE)
    view.pad_token = "<|pad|>"
    assert component(view).data["kinds"] == bytes([0, 5])


def test_the_kl_row_follows_the_estimator() -> None:
    arrays = {"logprobs": np.array([-0.5, -1.0]), "ref_logprobs": np.array([-0.4, -1.5])}
    view = TokenView(sample=Sample(uid="a:0", step=1, **arrays))
    view.kl_estimator = "kl_k2"
    assert "kl_k2" in component(view).data["rows"]["name"]


def test_every_parameter_is_documented() -> None:
    names = set(TokenView.param) - {"name"}
    assert all(TokenView.param[name].doc for name in names)


def test_sessions_in_two_languages_do_not_share_the_notes_of_a_sample() -> None:
    sample, notes = Sample(uid="a", step=1, response="yes", response_tokens=["yes"]), []
    for language in (CHINESE, ENGLISH):
        with using(language):
            notes.append(component(TokenView(sample=sample)).data["notes"])
    assert notes[0] != notes[1] == ["No token values are logged: no logprobs, rewards, values or advantages."]
