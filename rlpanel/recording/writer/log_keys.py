"""The keys of a line of the log, for a recorder that runs without numpy; a test compares the schema."""

from __future__ import annotations

import difflib

#: Names and aliases of `rlpanel.schema.FIELDS`, and what the recorder and the reader add.
KNOWN_KEYS = frozenset(
    [
        "advantage",
        "advantages",
        "agent",
        "audios",
        "branch",
        "branch_kind",
        "correction_weights",
        "entropies",
        "entropy",
        "episode",
        "experts",
        "finish_reason",
        "ground_truth",
        "group",
        "group_id",
        "images",
        "is_filter_drop",
        "is_masked",
        "judge",
        "judge_calls",
        "logprobs",
        "loss_mask",
        "messages",
        "new_logprobs",
        "old_logprobs",
        "parent",
        "policy_version",
        "prompt",
        "rank",
        "ref_logprobs",
        "ref_response",
        "ref_reward",
        "ref_valid_reward",
        "response",
        "response_token_ids",
        "response_tokens",
        "returns",
        "reward",
        "rewards",
        "rollout_experts",
        "rollout_is_weights",
        "rollout_logprobs",
        "rollout_routed_experts",
        "routed_experts",
        "routing_mismatch",
        "session",
        "split",
        "status",
        "status_reason",
        "step",
        "teacher_log_probs",
        "teacher_logprobs",
        "teacher_logps",
        "time",
        "timing",
        "tis_weights",
        "token_rewards",
        "top_logprobs",
        "trainer_version",
        "trajectory",
        "truncated",
        "turn_rewards",
        "valid_reward",
        "values",
        "verifier",
        "videos",
    ]
)
#: Share of equal characters from which a key is taken for a misspelt one.
_CLOSE = 0.82


def meant_key(key: str) -> str:
    """Return the known key that an unknown one looks like; empty if the key is known or like no other."""
    name = key.lower()
    if name in KNOWN_KEYS or any(name.startswith(f"{known}_") for known in KNOWN_KEYS):
        return ""
    return next(iter(difflib.get_close_matches(name, sorted(KNOWN_KEYS), n=1, cutoff=_CLOSE)), "")
