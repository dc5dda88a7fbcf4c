"""The plot of tokens: the values of `Run.tokens`."""

from __future__ import annotations

from pathlib import Path

import holoviews as hv
import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.plotting import sample_plots
from tests.drawn import options_of
from tests.factories import append, line, write_run


@pytest.mark.parametrize("metric", ["kl_k3", "surprisal", "token_entropy"])
def test_values_are_those_of_the_table(grpo: rlpanel.Run, metric: str) -> None:
    uid = grpo.samples(30).uid[3]
    stems, marks = grpo.plot.tokens(uid, metric)
    table = grpo.tokens(uid)
    for drawn in (stems, marks):
        np.testing.assert_array_equal(drawn["position"], table.position)
        np.testing.assert_array_equal(drawn[metric], table[metric])
    assert f"{len(table)} tokens" in options_of(marks)["title"]


def test_without_a_reference_the_surprisal_is_shown(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=1, samples=1, drop=("ref_logprobs",)), follow=False)
    marks = run.plot.tokens(run.samples().uid[0]).get(1)
    assert options_of(marks)["ylabel"] == "surprisal (nats)"


def test_a_long_response_is_thinned_to_its_outliers() -> None:
    values = np.zeros(9000)
    values[[0, 4501, 8999]] = 5.0, -7.0, 3.0
    table = pd.DataFrame({"position": np.arange(9000), "kl_k3": values})
    shown, size = sample_plots.thinned(table, "kl_k3")
    assert (size, len(shown)) == (3, 3000)
    assert shown[shown.kl_k3 != 0].position.tolist() == [0, 4501, 8999]
    assert sample_plots.thinned(table[:4000], "kl_k3")[1] == 1


def test_a_token_does_not_end_the_script_of_a_notebook(tmp_path: Path) -> None:
    tokens = ["</script><img src=x>", "<!--"]
    arrays = {"logprobs": [-1.0, -2.0], "ref_logprobs": [-1.0, -1.0]}
    append(tmp_path / "r.jsonl", line(1, tokens=False, response_tokens=tokens, **arrays))
    run = rlpanel.open_run(tmp_path, follow=False)
    data, _ = hv.renderer("bokeh").components(run.plot.tokens(run.samples().uid[0]))
    assert "<img" in data["text/html"]
    assert "</script><img" not in data["text/html"]
    assert "<!--" not in data["text/html"].partition("<script")[2]


def test_a_metric_that_is_not_logged_is_an_error_that_lists_the_others(grpo: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match=r"no token metric 'value' in .*; available: .*kl_k3"):
        grpo.plot.tokens(grpo.samples(30).uid[0], "value")
