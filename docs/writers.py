"""The table of trainers whose own writers were executed: ``docs/adapters.md``.

Versions come from the requirements of the tests, or from the names of the folders with recorded files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"
_RECORDED = _TESTS / "data" / "upstream"


@dataclass(frozen=True)
class Writer:
    """A trainer's writer that was executed.

    Attributes
    ----------
    trainer, executed, read : str
        Name of the trainer, its code that ran, and what of the result is compared in tests.
    package : str
        Package that the tests install; empty if files were recorded.
    folder : str
        Start of the name of the folder with recorded files; the rest is the trainer's release or commit.
    index : str
        Package whose releases are watched though files were recorded.
    """

    trainer: str
    executed: str
    read: str
    package: str = ""
    folder: str = ""
    index: str = ""

    @property
    def looked_at(self) -> tuple[str, str]:
        """The day on which this release was last looked at, and the newest release of that day."""
        package = self.package or self.index
        if not package:
            return "–", "not on an index"
        golden = json.loads((_RECORDED / "golden" / f"{package}.json").read_text("utf-8"))
        return golden["date"], golden["newest"]

    @property
    def version(self) -> str:
        """The release that the tests install, or the release or commit whose files were recorded."""
        if self.package:
            return _releases()[self.package]
        (folder,) = _RECORDED.glob(f"{self.folder}-*")
        version = folder.name.removeprefix(f"{self.folder}-")
        return version if "." in version else f"commit {version}"


WRITERS = (
    Writer(
        "TRL",
        "real training with `rlpanel.record`, also with tools",
        "every number against the trainer's own log; the conversation of tool runs",
        package="trl",
    ),
    Writer(
        "TRL, AsyncGRPO",
        "real training with `rlpanel.record`; a stand-in for the vLLM server",
        "`ratio`, `kl`, `entropy` against the trainer's own log; staleness, dropped samples, advantages",
        package="trl",
    ),
    Writer(
        "TRL, vLLM",
        "real training with `rlpanel.record`; a stand-in for vLLM, which leaves tokens unscored",
        "the importance ratio against the trainer's own log",
        package="trl",
    ),
    Writer(
        "TRL, `log_completions`",
        "real training, and `GRPOTrainer.log`",
        "scores, advantages, tool calls; an evaluation at the step of training",
        package="trl",
    ),
    Writer(
        "verl V1",
        "`PPOTrainer._log_rollout_data`, `_dump_generations`, `_write_generations`",
        "texts, scores, groups; no padding rows; validation with several outputs of a session, resumed steps",
        package="verl",
    ),
    Writer(
        "verl V1, hook",
        "`PPOTrainer.step` and `_log_rollout_data` with rlpanel's hook, from the agent loop's outputs",
        "session, turn, tokens, loss mask (tools, rejected tokens), logprobs, advantages; no padding rows",
        package="verl",
    ),
    Writer(
        "OpenRLHF",
        "`RemoteExperienceMaker.compute_advantages_and_returns` with rlpanel's hook",
        "logprobs, advantages, loss mask, images",
        package="openrlhf",
    ),
    Writer(
        "SkyRL, hook",
        "`TrajectoryLogger.log`, `_rows_for_output`, `_scored_view` with rlpanel's hook",
        "prompts from tokens, logprobs, loss mask, rewards per token, episodes and turns, evaluations",
        package="skyrl",
    ),
    Writer(
        "Agent-Lightning, hook",
        "`load_hooks`, `AglRolloutManager.enqueue_and_wait_until_completed` with rlpanel's hook",
        "messages, token ids, logprobs, rewards, groups, episodes and turns, failures, evaluations",
        package="agentlightning",
    ),
    Writer(
        "tinker-cookbook, hook",
        "`serialize_rollout_summaries`, `serialize_rollout_summaries_from_groups` with rlpanel's hook",
        "prompts, token ids, logprobs, loss mask, joined turns, lag, two data sets",
        package="tinker-cookbook",
    ),
    Writer(
        "ms-swift",
        "`GRPOTrainer.log`, the tables of the Megatron and Ray trainers, `JsonlWriter`",
        "texts, rewards, advantages; the last table once; an evaluation at the step of training",
        package="ms-swift",
    ),
    Writer(
        "SkyRL",
        "`dump_per_dataset_eval_results`",
        "texts, scores (also per token), step, data sets, trajectories of several rows",
        package="skyrl",
    ),
    Writer(
        "tinker-cookbook",
        "`write_rollout_summaries_jsonl`",
        "rewards, groups, steps, data sets",
        package="tinker-cookbook",
    ),
    Writer(
        "AReaL",
        "`WorkflowExecutor._dump_trajectory`",
        "texts, rewards, whole groups, evaluation",
        package="areal",
    ),
    Writer(
        "verifiers",
        "`Episode`, `Trace`, `write_episode`, `Episode.to_record` as prime-rl writes it",
        "rewards, environments, forks, compactions, timeouts, failures, evaluation",
        package="verifiers",
    ),
    Writer(
        "prime-rl",
        "`FileMonitor.log_episodes` with verifiers' `Episode`",
        "messages, tool calls, images, rewards, arrays",
        folder="prime-rl",
    ),
    Writer(
        "NeMo-RL",
        "`log_batched_dict_as_jsonl`",
        "prompt, response, environment, arrays",
        folder="nemo-rl",
    ),
    Writer(
        "rLLM",
        "`EpisodeLogger.log_episodes_batch`, `EvalEpisodeStore.write`",
        "conversations with tool calls, rewards, groups, status",
        folder="rllm",
    ),
    Writer(
        "NeMo Gym",
        "`RolloutCollectionHelper.run_from_config` without its dispatch; lines of its example files",
        "conversations with tool calls, rewards, masked rewards, failures, status",
        folder="gym",
        index="nemo-gym",
    ),
    Writer(
        "miles",
        "`save_debug_rollout_data`, `save_debug_trajectory_data`, `save_dashboard_columns`",
        "conversations with tool calls, rewards, token ids, logprobs, loss mask",
        folder="miles",
    ),
    Writer(
        "ROLL",
        "`dump_rollout_to_specific_path`",
        "prompts as messages, responses, scores, groups",
        folder="roll",
    ),
    Writer(
        "ROLL, agentic",
        "`dump_rollout_trajectories`; `formulate_rollouts` of both environment managers, `MessageTracker`",
        "tool calls, images, branches, rewards by turn, groups, status",
        folder="roll",
    ),
    Writer(
        "open-instruct",
        "`save_rollouts_to_disk`, `_save_rollouts`, `save_rollout_metadata`",
        "token ids, the engine's logprobs, rewards, advantages, groups, tools, ground truth",
        folder="open-instruct",
    ),
    Writer(
        "slime",
        "`save_debug_rollout_data`, `save_debug_train_data` of two ranks, `Sample.append_response_tokens`",
        "texts, token ids, loss mask, rewards, status; training's arrays by sample",
        folder="slime",
    ),
    Writer(
        "OpenPipe ART",
        "`write_trajectory_groups_parquet`, `Model._log_metrics`",
        "conversations with tool calls, rewards by episode, logprobs, groups, exceptions, scalars",
        package="openpipe-art",
    ),
    Writer(
        "atropos",
        "`BaseEnv.handle_send_to_api`",
        "groups, token ids, masks, logprobs, scores",
        package="atroposlib",
    ),
    Writer(
        "RAGEN",
        "`_save_as_jsonl`",
        "turns, rewards, groups",
        folder="ragen",
    ),
    Writer(
        "LLaMA-Factory",
        "`LogCallback.on_log`",
        "scalars",
        package="llamafactory",
    ),
    Writer(
        "Harbor",
        "`Trajectory` in ATIF, `TrialResult`",
        "rewards, turns, tool calls, token ids, failures, steps of a trial",
        folder="harbor",
        index="harbor",
    ),
    Writer(
        "Inspect",
        "`eval` with a mock model, `.eval` and `.json`",
        "scores, epochs, messages, errors, limits",
        folder="inspect",
        index="inspect-ai",
    ),
)


def writers_table() -> str:
    """Return the table of writers that were executed."""
    head = "| trainer | tested version | watched on | newest known | what was executed | what is compared |"
    rows = [
        f"| {each.trainer} | {each.version} | {' | '.join(each.looked_at)} | {each.executed} | {each.read} |"
        for each in WRITERS
    ]
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def _releases() -> dict[str, str]:
    files = ("upstream/requirements.txt", "upstream/imported.txt", "train/requirements.txt")
    texts = [(_TESTS / name).read_text("utf-8") for name in files]
    return dict(re.findall(r"^([\w-]+)==(\S+)$", "\n".join(texts), re.MULTILINE))
