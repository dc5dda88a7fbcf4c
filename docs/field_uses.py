"""The table of what each field of a log line gives: views, metrics, rules of findings and of lint.

Metrics and lint rules declare what they need. Views and the rules of findings do not. They are named here,
and a test checks that the names exist.
"""

from __future__ import annotations

from docs.metrics_page import needed_fields
from rlpanel import schema
from rlpanel.findings.engine.rule import RULES
from rlpanel.lint.linter import LINT_RULES
from rlpanel.metrics.engine import column_info
from rlpanel.panels.findings.findings_list import rule_anchor

#: Views by field.
VIEWS: dict[str, str] = {
    "step": "all curves",
    "rank": "filter and curves by rank, *Timeline*",
    "prompt": "samples, *Prompts*, *Compare*",
    "response": "tab *Text*, *Diff*, search, *Explain*",
    "ref_response": "tab *Diff*",
    "ground_truth": "columns answer and truth",
    "messages": "tab *Conversation*",
    "response_tokens": "tab *Tokens*, *Rollouts*, *Token ranking*",
    "response_token_ids": "tab *Tokens*, with `--tokenizer`",
    "logprobs": "token colours, *Update*",
    "ref_logprobs": "token colours",
    "new_logprobs": "*Update*",
    "rollout_logprobs": "*Drift*",
    "values": "token colours",
    "top_logprobs": "alternatives of a token",
    "loss_mask": "grey tokens",
    "reward": "curve, histogram, *Prompts*, *Compare*",
    "ref_reward": "*Gap to reference*",
    "group": "tab *Group*, *Groups*",
    "split": "choice of splits",
    "status": "*Timeline*, *Conversation*",
    "episode": "folded rows of an episode",
    "branch": "tab *Tree*",
    "parent": "tab *Tree*",
    "turn_rewards": "*Conversation*",
    "policy_version": "*Timeline*, *Conversation*",
    "timing": "*Timeline*",
    "judge": "*Conversation*",
    "images": "*Conversation*",
    "audios": "*Conversation*",
    "videos": "*Conversation*",
}
#: Rules of findings by a field that they need; a rule that takes either of two fields stands at both.
RULES_OF: dict[str, tuple[str, ...]] = {
    "rank": ("missing_rank", "rank_repeats", "rank_stale", "rank_differs"),
    "prompt": ("prompts_again", "prompts_shared", "prompt_template"),
    "response": (
        *("empty_responses", "invalid_text", "language_drift", "duplicates", "special_tokens", "prompt_echo"),
        *("loops", "new_phrase"),
    ),
    "ground_truth": (
        *("truth_missing", "truth_changed", "truth_form", "truth_in_prompt", "right_unrewarded"),
        *("wrong_rewarded", "answers_unclear"),
    ),
    "messages": (
        "tool_fails",
        "tool_results",
        "no_answer",
        "equal_calls",
        "turns_collapse",
        "errors_rewarded",
    ),
    "logprobs": ("collapse",),
    "ref_logprobs": ("kl_spike", "kl_falls", "kl_zero", "negative_kl"),
    "rollout_logprobs": ("engine", "engine_change"),
    "new_logprobs": ("ratio", "ratio_spread"),
    "teacher_logprobs": ("teacher_scores",),
    "values": ("critic_variance", "critic_error"),
    "entropy": ("collapse",),
    "loss_mask": ("mask_on_results",),
    "reward": ("missing_rewards", "reward_jumps", "best_falls", "length_reward", "class_unrewarded"),
    "valid_reward": ("held_out",),
    "advantage": ("advantage_sign", "advantage_centre", "advantage_scale", "advantage_explodes"),
    "truncated": ("truncated",),
    "finish_reason": ("cut_unmarked",),
    "group": ("zero_variance", "mixed_groups", "groups_incomplete", "single_groups"),
    "split": ("evaluation_falls", "evaluation_leak"),
    "status": ("environment_errors", "discarded_samples"),
    "policy_version": ("stale_samples", "lag_grows"),
}
#: Metrics that are named for a field; the others are counted.
SHOWN = 4


def uses_table() -> str:
    """Return the table of the fields that give something, in the order of the page."""
    head = ["| field | views | metrics | rules of findings | rules of lint |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(row for field in schema.FIELDS if (row := _row(field.name)))])


def _row(field: str) -> str:
    rules = [f"[{RULES[name].label}](findings.md#{rule_anchor(name)})" for name in RULES_OF.get(field, ())]
    cells = [VIEWS.get(field, ""), _some(_metrics(field)), ", ".join(rules), _some(_lint(field))]
    return f"| `{field}` | {' | '.join(cells)} |" if any(cells) else ""


def _metrics(field: str) -> list[str]:
    return [f"`{m.name}`" for m in column_info.visible_metrics() if field in needed_fields(m)]


def _lint(field: str) -> list[str]:
    needs = {
        rule.name: {each for need in rule.needs for each in need.split("|")} for rule in LINT_RULES.values()
    }
    return [f"`{name}`" for name, fields in needs.items() if field in fields]


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
