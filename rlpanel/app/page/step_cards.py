"""The cards of the selected step: distribution of the rewards, gap to the reference, groups, and means."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_summary import StepSummary
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script


class StepCards(Region):
    """The cards; one that has nothing to show is hidden."""

    distribution = param.String()
    gap = param.String()
    groups = param.String()
    numbers = param.String()

    _esm = region_script(
        distribution=RewardDistribution, gap=RewardGap, groups=GroupStrip, numbers=StepSummary
    )
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/step_cards.css")]
