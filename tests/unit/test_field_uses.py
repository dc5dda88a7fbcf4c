"""The table of what each field gives names rules, views and fields that there are."""

from __future__ import annotations

from docs.field_uses import RULES_OF, VIEWS, uses_table
from rlpanel import schema
from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.rule import RULES

FIELDS = {field.name for field in schema.FIELDS}


def test_the_names_exist() -> None:
    assert RULES_OF.keys() | VIEWS.keys() <= FIELDS
    assert [name for names in RULES_OF.values() for name in names if name not in RULES] == []


def test_a_row_says_what_a_field_gives() -> None:
    rows = {line.split("`")[1]: line for line in uses_table().splitlines()[2:]}
    assert rows.keys() <= FIELDS
    assert "[KL spike](findings.md#kl-spike--kl_spike)" in rows["ref_logprobs"]
    assert "`kl_k3`" in rows["ref_logprobs"]
    assert "`engine_mismatch`" in rows["rollout_logprobs"]
    assert "`mask_in_place`" in rows["loss_mask"]
    assert "more |" in rows["reward"]
