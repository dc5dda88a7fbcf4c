"""The cards of the step: one component, whatever they show."""

from __future__ import annotations

import json
from pathlib import Path

from bokeh.document import Document

import rlpanel
from rlpanel.api.run import Run
from rlpanel.app.page.page_regions import StepCards
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepSummary
from tests.factories import append, line


def opened(folder: Path, reference: float | None) -> Run:
    folder.mkdir()
    lines = (line(1, index=at, ref_reward=reference, tokens=False) for at in range(4))
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False)


def test_a_hidden_card_has_no_model_and_is_shown_with_its_first_values(tmp_path: Path) -> None:
    alone, beside = (opened(tmp_path / str(reference), reference) for reference in (None, 0.5))
    context = Context(index=alone.index, view=alone.view)
    shown = {
        "distribution": RewardDistribution(context),
        "gap": RewardGap(context),
        "groups": GroupStrip(context),
        "numbers": StepSummary(context),
    }
    assert not shown["gap"].visible
    cards, document = StepCards(shown), Document()
    document.add_root(cards.get_root(document))
    models = len(document.models)
    assert {name: json.loads(getattr(cards, name))["values"]["visible"] for name in shown} == {
        name: card.visible for name, card in shown.items()
    }
    context.param.update(index=beside.index, view=beside.view)
    assert json.loads(cards.gap)["values"]["head"]["title"] == "Gap to reference"
    assert len(document.models) == models
