"""Names under which other programs log a field, each with the programs that write it.

A field's names are in groups: those of the first group mean hardly anything else, and the later a group is,
the more often its names mean something else. `read_name` finds a name's field and group.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

#: Confidence in a name of the first group, the second, and so on.
GRADES = (0.96, 0.88, 0.76, 0.62, 0.5)

#: Field → groups of names, each with its writers; one without a known writer is a variant of those beside it.
ALIASES: dict[str, tuple[dict[str, str], ...]] = {
    "messages": (
        {"messages": "OpenAI, TRL, verifiers", "conversation": "enterprise-arena, ShareGPT"},
        {"conversations": "ShareGPT, LLaMA-Factory", "trajectory": "reward-hacking dumps, mini-swe-agent"},
        {"history": "SWE-agent", "traj": "tau-bench", "transcript": "Petri", "dialogue": "", "dialog": ""},
        {"chat": "", "chat_history": "LangChain", "trace": "", "turns": "MT-bench", "rollout": "rLLM"},
        {"steps": "ATIF", "events": "rolloutviz", "interactions": ""},
    ),
    "prompt": (
        {
            "prompt": "rlpanel, TRL, OpenAI",
            "input_prompt": "SkyRL",
            "prompt_text": "",
            "prompts": "verl, ROLL",
        },
        {"question": "Qwen2.5-Math, MATH-500", "problem": "AIME, DeepScaleR", "query": "ms-swift"},
        {"instruction": "alpaca_eval", "input": "verl, Inspect", "problem_statement": "SWE-bench"},
        {"question_content": "LiveCodeBench", "user_prompt": "", "question_text": "", "query_text": ""},
        {
            "task": "browser agents",
            "context": "lm-evaluation-harness",
            "observation": "",
            "obs": "vending-env",
        },
    ),
    "response": (
        {"response": "rlpanel", "completion": "TRL, human-eval, verifiers", "completions": "TRL, vLLM"}
        | {
            "generation": "OpenR1, Qwen",
            "generations": "OpenR1, simpleRL",
            "model_output": "EleutherAI, AlpacaFarm",
        }
        | {"model_response": "OpenAI evals", "output_response": "SkyRL", "responses": "ROLL, verl"}
        | {"assistant_response": "", "response_text": "", "completion_text": "", "raw_completion": ""}
        | {"sampled_text": "", "rollout_text": "", "choices.0.message.content": "OpenAI"}
        | {
            "model_patch": "SWE-bench",
            "choices.0.text": "OpenAI",
            "llm_output": "",
            "llm_response": "",
            "raw_response": "",
        },
        {"output": "verl, alpaca_eval, Inspect", "outputs": "vLLM", "prediction": "SQuAD, evals"}
        | {"generated_text": "Hugging Face pipelines", "generated": "", "generated_code": ""}
        | {"generated_answer": "", "model_answer": "", "output_text": "OpenAI Responses", "raw_output": ""}
        | {"predictions": "", "resps.0.0": "lm-evaluation-harness", "model_outputs": "", "reply": ""},
        {"code": "Qwen2.5-Math", "sampled": "OpenAI evals", "action": "vending-env", "solution": "reflexion"}
        | {"result": "BFCL", "completion_trace": "", "assistant": "", "raw": "", "final_output": ""},
        {
            "pred": "Qwen2.5-Math",
            "answer": "GSM8K",
            "final_answer": "",
            "text": "OpenAI completions",
            "content": "",
        },
    ),
    "reward": (
        {"reward": "rlpanel, verifiers, tau-bench", "total_reward": "tinker-cookbook", "final_reward": ""}
        | {"episode_reward": "RAGEN", "overall_reward": "verl", "reward_total": "", "return": "RL libraries"}
        | {"reward_score": "", "mean_reward": "", "reward_value": "", "episode_return": ""},
        {"score": "verl, Inspect", "scores": "ROLL, Qwen2.5-Math", "rewards": "atropos", "total_score": ""}
        | {"final_score": "", "overall_score": "UltraFeedback", "reward_model_score": "", "rm_score": "verl"},
        {"correct": "rlvr-misalignment-onset", "is_correct": "rLLM", "passed": "human-eval"}
        | {"success": "WebArena", "resolved": "SWE-bench", "solved": "", "is_solved": "reflexion"}
        | {"acc": "verl, lm-evaluation-harness", "accuracy": "", "is_success": "", "correctness": ""}
        | {"pass": "", "exact_match": "lm-evaluation-harness", "outcome": "", "task_success": ""}
        | {"is_passed": "", "won": "", "win": "TextArena"},
        {"f1": "SQuAD", "em": "SQuAD", "pass_rate": "", "graded": "LiveCodeBench", "utility": ""}
        | {"grade": "", "valid": "BFCL", "rating": ""},
    ),
    "rewards": (
        {"rewards": "rlpanel", "reward_components": "", "reward_breakdown": "", "sub_rewards": ""}
        | {"reward_parts": "", "component_rewards": "", "reward_dict": "", "reward_info": "tau-bench"},
        {"scores": "Inspect", "metrics": "verifiers", "score_breakdown": "", "subscores": ""},
    ),
    "ground_truth": (
        {"ground_truth": "rlpanel, verl", "gt": "Qwen2.5-Math", "gts": "verl", "reference_answer": "SimpleRL"}
        | {"expected_answer": "NeMo Skills", "gold": "lm-evaluation-harness", "gold_answer": ""}
        | {"correct_answer": "", "answer_gt": "", "true_answer": "", "label_answer": ""}
        | {"reward_model.ground_truth": "verl", "canonical_solution": "human-eval"},
        {"target": "Inspect, lm-evaluation-harness", "reference": "", "expected": "", "ideal": "OpenAI evals"}
        | {"expected_output": "", "reference_solution": "", "references": "", "targets": ""},
        {"answer": "GSM8K, verifiers", "answers": "SQuAD", "solution": "MATH", "label": "slime"},
    ),
    "step": (
        {"step": "rlpanel, TRL", "global_step": "Lightning, ROLL, DeepSpeed", "train_step": "rolloutscope"}
        | {"training_step": "open-instruct", "trainer_step": "", "gen_step": "ms-swift", "policy_step": ""}
        | {"optimizer_step": "", "update_step": "", "rl_step": "", "step_num": "", "global_steps": "verl"},
        {"iteration": "tinker-cookbook, RLlib", "iter": "", "step_index": "rolloutscope", "update": ""}
        | {"step_id": "", "training_iteration": "RLlib", "num_updates": "", "rollout_step": ""},
        {"epoch": "Qwen, SkyRL", "train_iter": "", "checkpoint_step": "", "ckpt_step": ""},
    ),
    "group": (
        {"group": "rlpanel", "group_id": "rlpanel", "prompt_id": "", "group_index": "slime", "problem_id": ""}
        | {"task_id": "human-eval, tau-bench", "question_id": "MT-bench", "example_id": "verifiers"}
        | {"instance_id": "SWE-bench", "group_idx": "tinker-cookbook", "problem_idx": "", "sample_group": ""},
        {"task_name": "Harbor", "task_idx": "", "question_idx": "", "prompt_index": "", "doc_id": "lm-eval"}
        | {"idx": "Qwen2.5-Math", "prompt_idx": "", "example_idx": "", "problem_index": ""},
    ),
    "response_tokens": (
        {"response_tokens": "rlpanel", "completion_tokens": "", "output_tokens": "", "tokens": "OpenAI"},
    ),
    "response_token_ids": (
        {
            "response_token_ids": "rlpanel",
            "completion_ids": "TRL",
            "response_ids": "verl",
            "output_ids": "SGLang",
        }
        | {"completion_token_ids": "", "output_token_ids": "vLLM", "generated_ids": "", "action_ids": ""},
        {"token_ids": "vLLM", "tokens": "atropos, slime"},
    ),
    "logprobs": (
        {"logprobs": "rlpanel, vLLM", "log_probs": "slime", "token_logprobs": "OpenAI", "logps": "TRL"}
        | {"response_logprobs": "", "completion_logprobs": "prime-rl", "response_log_probs": ""}
        | {"output_token_logprobs": "SGLang", "sampling_logprobs": "", "generation_logprobs": "NeMo-RL"},
    ),
    "old_logprobs": ({"old_logprobs": "rlpanel", "old_log_probs": "verl", "old_logps": ""},),
    "ref_logprobs": ({"ref_logprobs": "rlpanel", "ref_log_probs": "slime", "ref_log_prob": "verl"},),
    "rollout_logprobs": ({"rollout_logprobs": "rlpanel", "rollout_log_probs": "slime, verl"},),
    "loss_mask": (
        {"loss_mask": "rlpanel, slime", "response_mask": "verl", "completion_mask": "TRL", "action_mask": ""},
        {"masks": "atropos", "mask": "", "assistant_masks": "TRL", "token_loss_mask": "NeMo-RL"},
    ),
    "advantage": ({"advantage": "rlpanel", "advantages": "verl, TRL", "adv": "", "advantage_value": ""},),
    "truncated": ({"truncated": "rlpanel", "is_truncated": "verifiers", "overlong": ""},),
    "finish_reason": (
        {
            "finish_reason": "rlpanel, OpenAI, vLLM",
            "stop_reason": "Anthropic",
            "choices.0.finish_reason": "OpenAI",
        },
    ),
    "status": ({"status": "rlpanel, slime"}, {"exit_status": "SWE-agent", "termination_reason": "rLLM"}),
    "split": ({"split": "rlpanel, tinker-cookbook"},),
}

#: Keys that only the sampling of a policy leaves beside a response: data sets for training have none of them.
SAMPLING = (
    {"task_id": "human-eval", "instance_id": "SWE-bench", "example_id": "verifiers", "sample_id": ""}
    | {"sample_idx": "", "sample_index": "slime", "rollout_id": "", "rollout_idx": "", "trajectory_id": ""}
    | {"generator": "alpaca_eval", "finish_reason": "OpenAI, vLLM", "stop_reason": "Anthropic"}
    | {"is_truncated": "verifiers", "trial": "tau-bench", "attempt": "", "is_correct": ""}
)

#: Last parts of a path that say nothing by themselves: ``score.value`` is a score.
_GENERIC = frozenset(
    {"value", "score", "total", "mean", "overall", "content", "text", "reward", "final", "raw"}
)
#: Loss of confidence for each level of nesting, and for a name that only ends with a known one.
_NESTED, _LONGER = 0.04, 0.14


class NameMatch(NamedTuple):
    """How well a key names a field.

    Attributes
    ----------
    confidence : float
        From 0 to 1; 0 if the key does not name the field.
    group : int
        Group of the name in `ALIASES`.
    rank : int
        Place of the name in the table.
    source : str
        Programs that write it; empty if it is a variant.
    """

    confidence: float
    group: int
    rank: int
    source: str


_NONE = NameMatch(0.0, len(GRADES), 0, "")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^a-z0-9.@]+")


def plain_name(key: str) -> str:
    """Return a key in lower case with ``_`` between its words: ``taskId`` and ``Task-ID`` are ``task_id``."""
    return _OTHER.sub("_", _CAMEL.sub("_", key).lower()).strip("_")


@cache
def _names(meaning: str) -> dict[str, NameMatch]:
    """Return the names of a field."""
    listed = [
        (group, name, each) for group, names in enumerate(ALIASES[meaning]) for name, each in names.items()
    ]
    return {
        name: NameMatch(GRADES[group], group, rank, source)
        for rank, (group, name, source) in reversed([*enumerate(listed)])
    }


def read_name(meaning: str, key: str) -> NameMatch:
    """Return how well a dotted key names a field: by itself, by its last part, or by that part's end."""
    path, names = plain_name(key), _names(meaning)
    if path in names:
        return names[path]
    *parents, last = path.split(".")
    lost = _NESTED * len(parents)
    if parents and last in _GENERIC and parents[-1] in names:
        return _less(names[parents[-1]], lost)
    if last in names:
        return _less(names[last], lost)
    ends = [name for name in names if "." not in name and last.endswith(f"_{name}")]
    return _less(names[max(ends, key=len)], lost + _LONGER) if ends else _NONE


def _less(match: NameMatch, lost: float) -> NameMatch:
    return match._replace(confidence=match.confidence - lost)


@cache
def names_any(key: str) -> bool:
    """Return True if a key is a name of any field."""
    return any(read_name(meaning, key).confidence for meaning in ALIASES)
