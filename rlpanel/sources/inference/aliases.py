"""Names under which other programs log a field, and names of language models."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from rlpanel.sources.adapters.record_shapes import PLUS, stands_for_columns

# -- aliases -------------------------------------------------------------------------------------------
# Names under which other programs log a field, each with the programs that write it.
#
# A field's names are in groups: those of the first group mean hardly anything else, and the later a group is,
# the more often its names mean something else. `read_name` finds a name's field and group.


#: Confidence in a name of the first group, the second, and so on.
GRADES = (0.96, 0.88, 0.76, 0.62, 0.5)

#: Field → its names, each with the programs that write it; ``;`` ends a group. Names without a program are
#: variants of those beside them.
ALIASES = {
    "messages": """
        messages (OpenAI, TRL, verifiers), conversation (enterprise-arena);
        conversations (ShareGPT, LLaMA-Factory), trajectory (mini-swe-agent), message_log (NeMo-RL);
        history (SWE-agent), traj (tau-bench), contents (Gemini), transcript, dialogue, dialog;
        chat, chat_history (LangChain), trace, turns, rounds, rollout, talk;
        steps (ATIF), events, interactions, transitions (gym), choices.0.turns (MT-bench)""",
    "prompt": """
        prompt (rlpanel, TRL, OpenAI), input_prompt (SkyRL), prompts (ROLL, TRL), prompt_text, prompt_str;
        question (Qwen2.5-Math), problem (MATH), query (ms-swift), user_prompt, user_input;
        instruction (alpaca_eval), input (verl, Inspect), problem_statement (SWE-bench), question_content
        (LiveCodeBench);
        input_text, question_text, query_text,
        task_description;
        task, context (lm-evaluation-harness), observation, obs (vending-env), text
        (gepa), statement, claim""",
    "response": """
        response (rlpanel), completion (TRL, human-eval, verifiers), completions (TRL), generation,
        generations (OpenR1), model_output, model_response, output_response (SkyRL), responses (ROLL),
        assistant_response, response_text, completion_text, raw_completion, sampled_text, rollout_text,
        choices.0.message.content (OpenAI), choices.0.text (OpenAI), model_patch (SWE-bench), llm_output,
        llm_response, raw_response, response_str, completion_str, raw_output, resps.0.0
        (lm-evaluation-harness), generated_text (Transformers), generated, generated_code,
        generated_answer, gen, gens;
        output (verl, alpaca_eval), outputs (vLLM), prediction, predictions,
        predict (LLaMA-Factory), model_answer, model_outputs,
        output_text (OpenAI), reply, answer_text, sample, samples, rollouts, attempts, candidates, final_text,
        final_message, submission (SWE-agent), submissions (letta-evals);
        code (Qwen2.5-Math), sampled (OpenAI Evals), action (vending-env), result (BFCL), assistant, raw,
        final_output, traj (FireAct), reasoning_chain (AutoRace), chain_of_thought;
        pred (Qwen2.5-Math), predicted, extracted_answer, parsed_answer, predicted_answer,
        answer (GSM8K), solution (Reflexion), text (OpenAI),
        final_answer, content""",
    "reward": """
        reward (rlpanel, verifiers, tau-bench), total_reward (tinker-cookbook), episode_reward,
        final_reward, return, reward_total, reward_score, reward_value, mean_reward, overall_reward,
        episode_return;
        score (verl, Inspect), scores (ROLL, Qwen2.5-Math), rewards (TRL),
        rm_scores (verl), total_score, final_score, reward_model_score;
        correct, is_correct (rLLM), passed (human-eval), success, is_success, task_success,
        task_completed, resolved
        (SWE-bench), solved, is_solved (Reflexion), acc (verl, lm-evaluation-harness), accuracy,
        correctness, pass, is_passed, verified, is_verified, base_status
        (evalplus), exact_match (lm-evaluation-harness), true_false (PromptPG), outcome, win, won;
        overall_score (UltraFeedback), r (tree-of-thought), f1 (SQuAD), em (SQuAD), pass_rate,
        graded (LiveCodeBench), valid (BFCL), utility, grade, rating,
        human_label (AutoRace), extractive_match (lighteval), result""",
    "rewards": """
        rewards (rlpanel), reward_info (tau-bench), reward_components, reward_breakdown, reward_parts,
        reward_dict, sub_rewards, component_rewards;
        scores (Inspect), metrics (verifiers), metric (lighteval), score_breakdown, subscores""",
    "ground_truth": """
        ground_truth (rlpanel, verl), gt (Qwen2.5-Math), gts (verl), reward_model.ground_truth (verl),
        reference_answer, expected_answer (NeMo Skills), gold (lm-evaluation-harness), gold_answer,
        correct_answer, true_answer, canonical_solution (human-eval);
        target (Inspect), targets, ideal (OpenAI Evals), reference, references, expected, expected_output,
        reference_solution;
        answer (GSM8K, verifiers), answers (SQuAD), solution (MATH), label (slime)""",
    "step": """
        step (rlpanel, TRL), global_step (ROLL, Lightning), global_steps (verl), train_step, training_step
        (open-instruct), gen_step (ms-swift), trainer_step, policy_step, optimizer_step, update_step,
        rl_step, step_num;
        iteration (tinker-cookbook), training_iteration (RLlib), step_index (rolloutscope), iter, update,
        step_id, num_updates, rollout_step;
        epoch, train_iter, checkpoint_step, ckpt_step""",
    "group": """
        group (rlpanel), group_id (rlpanel), group_index (slime), group_idx (tinker-cookbook), task_id
        (human-eval, tau-bench), question_id (MT-bench), example_id (verifiers), instance_id (SWE-bench),
        prompt_id, problem_id, case_id;
        task_name (Harbor), doc_id (lm-evaluation-harness), idx (Qwen2.5-Math), task_idx, question_idx,
        prompt_idx, prompt_index, example_idx, problem_idx, problem_index;
        id, uid, index""",
    "response_tokens": """
        response_tokens (rlpanel), tokens (OpenAI), completion_tokens, output_tokens""",
    "response_token_ids": """
        response_token_ids (rlpanel), completion_ids (TRL), response_ids (verl), output_ids (SGLang),
        output_token_ids, completion_token_ids, generated_ids, action_ids;
        token_ids (vLLM), tokens (atropos, slime)""",
    "logprobs": """
        logprobs (rlpanel, vLLM), log_probs (slime), token_logprobs (OpenAI), logps (TRL),
        response_logprobs, response_log_probs, completion_logprobs, output_token_logprobs (SGLang),
        generation_logprobs (NeMo-RL)""",
    "old_logprobs": "old_logprobs (rlpanel), old_log_probs (verl), old_logps",
    "ref_logprobs": "ref_logprobs (rlpanel), ref_log_probs (slime), ref_log_prob (verl)",
    "rollout_logprobs": "rollout_logprobs (rlpanel), rollout_log_probs (slime, verl)",
    "loss_mask": """
        loss_mask (rlpanel, slime), response_mask (verl), completion_mask (TRL), action_mask;
        masks (atropos), assistant_masks (TRL), token_loss_mask (NeMo-RL), mask""",
    "advantage": "advantage (rlpanel), advantages (verl, TRL), adv, advantage_value",
    "truncated": "truncated (rlpanel), is_truncated (verifiers), overlong",
    "finish_reason": """
        finish_reason (rlpanel, vLLM), stop_reason (Anthropic), choices.0.finish_reason (OpenAI)""",
    "status": "status (rlpanel, slime); exit_status (SWE-agent), termination_reason (rLLM)",
    "split": "split (rlpanel, tinker-cookbook)",
}
_ENTRY = re.compile(r"([\w.]+)(?:\s+\(([^)]*)\))?")

#: Keys that only the sampling of a policy leaves beside a response: data sets for training have none of them.
SAMPLING = frozenset(
    {
        "review_id",
        "task_id",
        "instance_id",
        "example_id",
        "sample_id",
        "sample_idx",
        "sample_index",
        "rollout_id",
    }
    | {"rollout_idx", "trajectory_id", "trial", "attempt", "generator", "finish_reason", "stop_reason"}
    | {"is_truncated", "is_correct", "answer_id", "output_token_count", "completion_tokens", "output_tokens"}
)

#: Last parts of a path that say nothing by themselves: ``score.value`` is a score.
_GENERIC = frozenset(
    {"value", "score", "total", "mean", "overall", "content", "text", "reward", "final", "raw"}
)
#: Loss of confidence for each level of nesting, and for a name that only ends with a known one.
_NESTED, _LONGER = 0.04, 0.14


#: Last words of a key for a share.
_PERCENT = frozenset({"percent", "percentage", "pct"})
#: Words before or after a known name that hardly change it: ``full_response`` and ``completion_raw``.
_BEFORE, _AFTER = (
    frozenset({"full", "raw", "final"}),
    frozenset({"raw", "full", "text", "str", "head"} | _PERCENT),
)
_BESIDE = 0.04
#: First words of a key that say that a model wrote the text: ``generated_solution``.
_OF_MODELS = frozenset({"model", "llm", "generate", "generated", "sampled", "policy"})
#: Last words of a key with the name of a system before them.
_PREDICTED = frozenset({"pred", "preds", "prediction", "predictions"})
#: Words of a key that counts steps.
_COUNTS = frozenset({"num", "n", "max", "min", "total", "steps"})
#: Words before a field's name that make another thing of it: ``stop_tokens``, ``max_reward_idx``.
_OTHERS = {
    "step": frozenset({"reasoning", "thought", "plan", "proof", "solution"}),
    "response": frozenset(
        {"gt", "gts", "gold", "golden", "ref", "reference", "expected", "target", "ground"}
    ),
    "response_tokens": frozenset(
        {"stop", "prompt", "input", "special", "bad", "eos", "new", "max", "question"}
    ),
    "ground_truth": frozenset({"malicious", "attack", "attacker", "adversarial", "harmful", "victim"}),
    "group": frozenset(
        {
            "run",
            "session",
            "trace",
            "request",
            "model",
            "max",
            "min",
            "best",
            "reward",
            "score",
            "turn",
            "step",
            "action",
            "answer",
        }
    ),
}
#: Words of an object that judges a whole sample; ``safety_eval.score`` is the score of an aspect.
_JUDGES = frozenset(
    {"eval", "evaluation", "score", "scores", "result", "results", "grade", "grading", "judge", "judgment"}
    | {
        "judgement",
        "verdict",
        "metric",
        "metrics",
        "reward",
        "rewards",
        "verifier",
        "verification",
        "outcome",
    }
    | {"final", "overall", "total", "info", "extra", "report", "rubric", "test", "tests", "task", "answer"}
    | {"response", "output", "model", "feedback", "critique", "summary", "data", "grader", "scorer", "rm"}
)
#: Keys that a message names if none is like the one that was given.
_NAMED_KEYS = 8


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
def _fields_by_name() -> dict[str, dict[str, NameMatch]]:
    """Return the fields of each name."""
    fields: dict[str, dict[str, NameMatch]] = {}
    for meaning, text in ALIASES.items():
        rank = 0
        for group, names in enumerate(text.split(";")):
            for name, source in _ENTRY.findall(names):
                match = NameMatch(GRADES[group], group, rank, " ".join(source.split()))
                fields.setdefault(name, {}).setdefault(meaning, match)
                rank += 1
    return fields


@lru_cache(maxsize=4096)
def fields_of(key: str) -> Mapping[str, NameMatch]:
    """Return the fields that a dotted key names: by itself, by its last part, or by a part of that."""
    if PLUS in key and stands_for_columns(key):
        return _fields_of_columns(key.split(PLUS))
    path, fields = plain_name(key.replace(".*.", ".")), _fields_by_name()
    parts = [part for part in path.split(".") if part]
    if not parts:
        return {}
    last, parents = parts[-1], [part for part in parts[:-1] if not part.isdecimal()]
    lost = _NESTED * len(parents)
    words = last.split("_")
    found: dict[str, NameMatch] = {}
    names = [(".".join(parts[at:]), _NESTED * at) for at in range(len(parts) - 1)]
    names += [(parents[-1], lost)] if parents and last in _GENERIC else []
    names += [(name, lost) for name in _spellings(last)]
    names += [("_".join(words[:-1]), lost + _BESIDE)] if words[-1] in _AFTER else []
    # `ref_logprobs` ends like `logprobs`, but is a field of its own.
    for at in range(1, len(words)) if last not in ALIASES else ():
        loss = lost + (_BESIDE if set(words[:at]) <= _BEFORE else _LONGER)
        names += [(name, loss) for name in _spellings("_".join(words[at:]))]
    for name, loss in names:
        for meaning, match in fields.get(name, {}).items():
            if meaning == "step" and not _COUNTS.isdisjoint(words):  # `num_steps` is a length
                continue
            if name != last and not _OTHERS.get(meaning, frozenset()).isdisjoint(words):
                continue
            found.setdefault(meaning, _less(match, loss))
    rest = [word for word in words if word not in _AFTER]
    if rest and rest[-1] in _PREDICTED and len(rest) > 1:  # `greedy_pred_text`, `qwen-7b_pred`
        found["response"] = NameMatch(GRADES[2] - lost, 2, 0, "")
    said = ["_".join(words[1:])] if words[0] in _OF_MODELS else []
    if any("response" in fields.get(name, {}) for each in said for name in _spellings(each)):
        found["response"] = _surer(found.get("response"), GRADES[1] - lost - _BESIDE)
    if last == "score" and parents and "reward" in found and _judges_aspect(parents[-1]):
        found["reward"] = _less(found["reward"], _LONGER)
    if words[0] in ("generated", "rewritten") and {"prompt"} <= found.keys():
        found["response"] = _surer(found.get("response"), GRADES[1] - lost - _BESIDE)
    if key.startswith("*_"):  # a column for each of several systems
        found = {meaning: _surer(match, GRADES[1]) for meaning, match in found.items()}
    return found


def _judges_aspect(name: str) -> bool:
    """Return True for an object that judges something by name: ``safety_eval``, not ``eval``."""
    words = set(name.split("_"))
    return not words.isdisjoint(_JUDGES) and not words <= _JUDGES


def _fields_of_columns(names: Sequence[str]) -> Mapping[str, NameMatch]:
    """Return the fields of a key for several columns: the reward's if each has one, else an answer's."""
    rewards = [fields_of(name).get("reward") for name in names]
    if all(match is not None for match in rewards):
        return {"reward": _surer(rewards[0], GRADES[1])}
    return {meaning: _surer(None, GRADES[1]) for meaning in ("response", "messages")}


def _surer(match: NameMatch | None, confidence: float) -> NameMatch:
    """Return a match of the second group with at least this confidence."""
    if match is not None and match.group < 2:
        return match
    return NameMatch(confidence, 1, 0, match.source if match is not None else "")


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name and, of a plural or a list (``output_list``), the singular."""
    if name.endswith("_list"):
        return (name, name[:-5])
    return (name, name[:-1]) if name.endswith("s") and len(name) > 3 else (name,)


def read_name(meaning: str, key: str) -> NameMatch:
    """Return how well a dotted key names a field."""
    return fields_of(key).get(meaning, _NONE)


def _less(match: NameMatch, lost: float) -> NameMatch:
    return match._replace(confidence=match.confidence - lost)


def unknown_key(name: str, key: str, keys: frozenset[str]) -> str:
    """Return why a mapped key cannot be read, with the key of the records that may be meant.

    Parameters
    ----------
    name : str
        rlpanel's name of the field.
    key : str
        A key that no record has.
    keys : frozenset of str
        Keys of the records, inner ones with dots.
    """
    known = sorted(keys)
    inner = [other for other in known if other.endswith(f".{key}")]
    named = [other for other in known if name in ALIASES and read_name(name, other).confidence]
    named.sort(key=lambda other: -read_name(name, other).confidence)
    meant = next(iter([*inner, *difflib.get_close_matches(key, known, n=1), *named]), "")
    hint = f"; did you mean {name}={meant}?" if meant else f"; the keys are {', '.join(known[:_NAMED_KEYS])}"
    return f"no record has the key {key!r}{hint}"


# -- model names ---------------------------------------------------------------------------------------
# Names of language models, in the names of files, keys and values.


#: Names that only a model has, and those that are as well the end of a word: ``prompt`` ends like ``mpt``.
_MODEL = re.compile(
    r"(?:gpt[-_]?\d(?:\.\d)?[a-z]?(?:-?(?:mini|nano|turbo))?|gpt-?j|davinci|claude|gemini|gemma|llama|vicuna|alpaca-\d|mi[sx]tral|qwen|deepseek|falcon"
    r"|chatgpt|chatglm|glm-?\d|baichuan|internlm|codegen|starcoder|wizard|redpajama|pythia|command-r"
    r"|o[134]-(?:mini|preview)|(?<![a-z])(?:palm|phi-?\d|mpt|bloom|flan|t5|opt|olmo|yi|cohere))(?![a-z])"
    r"|(?<![a-z\d])\d+(?:\.\d+)?b(?![a-z\d])"
)


def models_in(text: str) -> set[str]:
    """Return the names of models in a text, without the marks between their parts."""
    return {re.sub(r"[-_.]", "", found[0]) for found in _MODEL.finditer(text.lower())}


def names_model(text: str) -> bool:
    """Return True if a text has the name of a model in it: ``gpt-4``, ``llama-2-7b`` or ``7b``."""
    return _MODEL.search(text.lower()) is not None
