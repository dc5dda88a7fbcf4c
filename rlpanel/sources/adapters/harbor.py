"""Reads Harbor's trials, ``{job}/{trial}/agent/trajectory.json``, and what its verifier wrote."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.adapters.atif import Atif, Call, Fields, trajectory_records
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.files.file_access import AnyPath, path_of, read_small, scan
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Adapter, Record

# -- verifier folder -----------------------------------------------------------------------------------
# Reads what Harbor's verifier wrote into the folder ``verifier`` of a trial, or of a step of it.
#
# Harbor (0.26.0, ``models/trial/paths.py``) writes ``test-stdout.txt`` and ``test-stderr.txt``; the tests
# write ``reward.txt`` or ``reward.json``, and often ``ctrf.json``, a report in the Common Test Report Format
# (https://ctrf.io). Any other text beside them is read as well.


FOLDER = "verifier"
#: Endings of names that are read, files of a folder, bytes of a file that are read at all, and characters of
#: its text that are kept at each end.
_ENDINGS = (".txt", ".json", ".log", ".xml", ".md")
_MAX_FILES, _MAX_VERIFIER_BYTES, _KEPT = 40, 32 << 20, 100_000
#: Order in which files are shown; others follow by name.
_FIRST = ("ctrf.json", "test-stdout.txt", "test-stderr.txt", "reward.json", "reward.txt")
_MARKS = {"passed": "✓", "failed": "✗", "skipped": "–", "pending": "–"}


def output_names(trial: str) -> list[str]:
    """Return the names of the verifier's files below a trial's folder, in the order of the screen."""
    try:
        found = [
            entry.name
            for entry in scan(f"{trial}/{FOLDER}")
            if entry.name.endswith(_ENDINGS) and entry.is_file(follow_symlinks=False)
        ]
    except OSError:
        return []
    places = {name: at for at, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))[:_MAX_FILES]


def verifier_outputs(trial: str) -> dict[str, str]:
    """Return the texts of the verifier's files by name; of one that cannot be read, the reason.

    Parameters
    ----------
    trial : str
        Path of the folder of the trial, or of one of its steps. A link is not followed.
    """
    texts: dict[str, str] = {}
    for name in output_names(trial):
        path: AnyPath = path_of(f"{trial}/{FOLDER}") / name
        try:
            data = read_small(path, _MAX_VERIFIER_BYTES).data
        except OSError as error:
            texts[name] = f"[{name} cannot be read: {str(error)[:120]}]"
            continue
        text = data.decode("utf-8", "replace")
        texts[name] = ends_of(_report(data) if name == "ctrf.json" else text) or "[empty]"
    return texts


def ends_of(text: str) -> str:
    """Return a text, or the ends of a long one with the number of characters between them."""
    if len(text) <= 2 * _KEPT:
        return text
    return f"{text[:_KEPT]}\n[… {len(text) - 2 * _KEPT:,} characters left out …]\n{text[-_KEPT:]}"


def _report(data: bytes) -> str:
    """Return a report of tests as one line per test, failed ones first; the text itself if it is not one."""
    try:
        results = to_python(parse(data.strip()).get("results"))
        return "\n".join(_lines(results)) if isinstance(results, Mapping) else data.decode("utf-8", "replace")
    except LineError:
        return data.decode("utf-8", "replace")


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    summary = results.get("summary")
    if isinstance(summary, Mapping):
        counts = (
            f"{summary[key]} {key}" for key in ("passed", "failed", "skipped", "pending") if summary.get(key)
        )
        yield f"{summary.get('tests', '?')} tests: {', '.join(counts) or 'none ran'}"
    tests = [each for each in results.get("tests") or () if isinstance(each, Mapping)]
    for test in sorted(tests, key=lambda each: each.get("status") != "failed"):
        duration = test.get("duration")
        seconds = f"  {duration / 1000:,.3g} s" if isinstance(duration, int | float) else ""
        yield f"{_MARKS.get(str(test.get('status')), '?')} {test.get('name')}{seconds}"
        for key in ("message", "trace"):
            if isinstance(test.get(key), str) and test[key]:
                yield "    " + test[key].replace("\n", "\n    ")


# -- harbor --------------------------------------------------------------------------------------------
# Reads Harbor's trials: ``{job}/{trial}/agent/trajectory.json`` with ``{trial}/result.json`` beside it.
#
# The trajectory is in ATIF (see `atif`). The reward, the exception and the times are in ``result.json``,
# which Harbor writes when the trial ends: until then a trial has no reward. A trial of several steps has
# ``steps/{step}/agent``, with the result of each step in ``step_results``. A trial without a trajectory is a
# sample without texts, because it counts in Harbor's means, too.


RESULT = "result.json"
#: Places of the result below a trial; without it, of what the verifier wrote.
_RESULTS = (
    *(RESULT, f"{RESULT}.gz", f"metadata/{RESULT}", f"metadata/{RESULT}.gz"),
    *("verifier/reward.json", "verifier/reward.txt"),
)
#: Parts of a trajectory's path: the trial's folder, and the step of a trial of several steps.
_PLACE = re.compile(r"(?P<trial>(?:[^/]+/)*?)(?:steps/(?P<step>[^/]+)/)?agent/(?P<file>[^/]+)")
_RESULT = re.compile(r"(?:(?<![^/])metadata/)?(?<![^/])result\.json(?:\.gz)?$")
#: Agents' main trajectory; others in its folder are continuations, or those of subagents.
_MAIN = "trajectory.json"
_MAX_BYTES = 64 << 20
_PHASES = {
    "environment_setup": "environment",
    "agent_setup": "environment",
    "agent_execution": "agent",
    "verifier": "score",
}
#: Exceptions that say that the policy's output or context was too long.
_LIMITS = re.compile(r"(?:Context|Output)(?:Window|Length|Token)Exceeded")
#: Keys of a result that are read in another way, or that describe the job rather than the trial.
_OWN = frozenset(
    {"schema_version", "id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum"}
    | {"started_at", "finished_at", "reward_valid", "verifier_environment_mode"}
)

Result = Mapping[str, Any]


@dataclass(frozen=True)
class HarborTrial:
    """Adapter for a trial's trajectory that adds what its result says.

    Attributes
    ----------
    result : str
        Path of ``result.json``; empty while there is none.
    stamp : int
        Its modification time, which identifies its version.
    trial, step : str
        Names of the trial, and of its step if it has several.
    folder : str
        Path of the trial, or of its step, whose verifier's output is read.
    """

    result: str
    stamp: int
    trial: str
    step: str
    folder: str = ""
    looks = Atif.looks
    document_name = Atif.document_name
    lacks_steps = True
    path_in_run = Atif.path_in_run

    @property
    def name(self) -> str:
        """Name that is unique for this version of the result."""
        return f"Harbor with {self.result} of {self.stamp}" if self.result else "Harbor without a result"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is a trajectory."""
        return Atif().accepts(path, document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trajectory with the reward and the status of its trial."""
        trajectory = {key: to_python(value) for key, value in document.items()}
        result = _result_at(self.result, self.stamp) if self.result else {}
        part = _step_result(result, self.step) if self.step else result
        is_main = PurePosixPath(path).name.startswith(_MAIN)
        shared = [("split", "eval"), ("trial", self.trial), *_facts(result)]
        shared += [("episode", f"{self.trial}/{self.step}" if self.step else self.trial)]
        return trajectory_records(
            trajectory,
            [*shared, *_outcome(part, result)],
            0,
            path,
            full=full,
            outcome=[
                *_task(result, self.step, trajectory),
                *_rewards(part, result),
                *_timing(part),
                *_verifier(self.folder, full=full),
            ]
            if is_main
            else (),
            calls=_calls(part) if is_main else (),
        )


class HarborResults:
    """Adapter for the result of a trial that has no trajectory."""

    name = "Harbor"
    looks = "{job}/{trial}/agent/trajectory.json, and result.json with 'trial_name', 'task_name' (Harbor)"
    document_name = re.compile(r"result\.json")
    lacks_steps = True
    path_in_run = re.compile(r"(?<![^/])(?:step_\d+/)?[^/]+/(?:metadata/)?result\.json$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the document is the result of a trial; a job's result is not."""
        return {"trial_name", "task_name", "config", "agent_info"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the trial as a sample without texts."""
        result = {key: to_python(value) for key, value in document.items()}
        fields = [("split", "eval"), ("trial", result["trial_name"]), *_facts(result)]
        fields += [*zip(("agent", "model"), _model_of(result, {}), strict=True), *_task(result, "", {})]
        fields += [*_outcome(result, result), *_rewards(result, result), *_timing(result)]
        return [build_record(0, fields, path, full=full)]


def join_result(run_folder: AnyPath, name: str) -> Adapter:
    """Return the adapter of a trajectory by its name below the run: with the result of its trial."""
    place = _PLACE.fullmatch(name)
    if place is None:
        return Atif()
    folder = run_folder / place["trial"] if place["trial"] else run_folder
    step = place["step"] or ""
    place_of_step = str(folder / "steps" / step if step else folder)
    for result in (folder / name for name in _RESULTS):
        try:
            return HarborTrial(str(result), result.stat().st_mtime_ns, folder.name, step, place_of_step)
        except OSError:
            continue
    return HarborTrial("", 0, folder.name, step, place_of_step)


def repeated_results(names: Set[str], trajectories: Set[str]) -> set[str]:
    """Return the results of trials among a run's files that are read with their trajectories."""
    with_texts = {place["trial"] for name in trajectories if (place := _PLACE.fullmatch(name))}
    return {name for name in names if _RESULT.sub("", name) in with_texts and _RESULT.search(name)}


def holds_trial(folder: str) -> bool:
    """Return True if a folder looks like a trial, or like a step of one."""
    try:
        names = {entry.name for entry in scan(folder)}
    except OSError:
        return False
    own = PurePosixPath(folder).name
    plain = {f"{own}.traj", f"{own}.traj.json"}
    packed = {name + suffix for name in plain for suffix in SUFFIXES}
    return not names.isdisjoint({"agent", "steps", RESULT} | plain | packed)


@lru_cache(maxsize=64)
def _result_at(path: str, stamp: int) -> Result:
    """Return the content of a result; LineError if it cannot be read now."""
    name = PurePosixPath(path).name
    try:
        data = read_small(path_of(path), _MAX_BYTES).data.strip()
        if name.endswith(".gz"):
            data = zlib.decompressobj(wbits=31).decompress(data, _MAX_BYTES)
        content = {"reward": float(data)} if name.endswith(".txt") else parse(data)
        result = {key: to_python(value) for key, value in content.items()}
        return {"verifier_result": {"rewards": result}} if name.startswith("reward.") else result
    except (OSError, LineError, ValueError, zlib.error) as error:
        raise LineError(f"Harbor: {name} of the trial cannot be read: {str(error)[:120]}") from error


def _step_result(result: Result, step: str) -> Result:
    parts = result.get("step_results") or ()
    return next((part for part in parts if isinstance(part, Mapping) and part.get("step_name") == step), {})


def _task(result: Result, step: str, trajectory: Mapping[str, Any]) -> Fields:
    """Yield the task, and the group: trials of one task by the same agent and model."""
    task, source = result.get("task_name"), result.get("source")
    if isinstance(task, str):
        named = f"{source}/{task}" if source else task
        model = _model_of(result, trajectory)
        yield "group", ":".join(filter(None, [f"{named}/{step}" if step else named, *model]))
        yield "task", named


def _facts(result: Result) -> Fields:
    """Yield the values of a result that are not read in another way."""
    for key, value in result.items():
        if key not in _OWN and isinstance(value, str | int | float):
            yield key, value


def _model_of(result: Result, trajectory: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the names of the agent and of its model; from the trajectory if the result has none."""
    info, logged = result.get("agent_info"), trajectory.get("agent")
    info, logged = (each if isinstance(each, Mapping) else {} for each in (info, logged))
    model = info.get("model_info")
    name = model.get("name") if isinstance(model, Mapping) else None
    found = info.get("name") or logged.get("name"), name or logged.get("model_name")
    return tuple(str(each) if each else None for each in found)  # type: ignore[return-value]


def _outcome(part: Result, trial: Result) -> Fields:
    """Yield the status of a trial that has ended, and what failed.

    A failure that leaves the reward valid is the agent's own result, as for Harbor.
    """
    if not part or "trial_name" not in trial:
        return
    error = _exception(part)
    if not error:
        yield "status", "ok"
        return
    kind = str(error.get("exception_type"))
    limit = _LIMITS.match(kind) is not None
    valid = _policy(error).get("has_valid_reward") is not False
    status = "truncated" if limit else "timeout" if "Timeout" in kind else ""
    if not valid:
        status = "environment_error"
    elif not status:
        status = "ok" if any(name == "reward" for name, _ in _rewards(part, trial)) else "environment_error"
    yield "status", status
    yield "finish_reason", kind
    yield "status_reason", f"{kind}: {error.get('exception_message') or ''}"[:LABEL_MAX]
    yield "truncated", int(limit)


def _policy(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what Harbor concludes from the type of an exception."""
    policy = error.get("policy")
    return policy if isinstance(policy, Mapping) else {}


def _exception(result: Result) -> Mapping[str, Any]:
    """Return the trial's exception, or else the first of its steps."""
    steps = [part for part in result.get("step_results") or () if isinstance(part, Mapping)]
    found = (part.get("exception_info") for part in (result, *steps))
    return next((each for each in found if isinstance(each, Mapping)), {})


def _rewards(part: Result, trial: Result) -> Fields:
    """Yield the reward by its name, or the only one; nothing if Harbor calls it invalid."""
    verified = part.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, Mapping) else None
    if not isinstance(rewards, Mapping) or not rewards or not _is_valid(part, trial):
        return
    only = next(iter(rewards.values())) if len(rewards) == 1 else None
    yield "reward", rewards.get("reward", only)
    if only is None:
        yield "rewards", rewards


def _is_valid(part: Result, trial: Result) -> bool:
    if part is trial and trial.get("reward_valid") is not None:
        return bool(trial["reward_valid"])
    return _policy(_exception(part)).get("has_valid_reward") is not False


def _timing(result: Result) -> Fields:
    """Yield the seconds of the trial's phases."""
    begin, end = (unix_seconds(result.get(key)) for key in ("started_at", "finished_at"))
    seconds: dict[str, float] = {}
    for key, phase in _PHASES.items():
        times = result.get(key)
        if isinstance(times, Mapping):
            start, stop = (unix_seconds(times.get(each)) for each in ("started_at", "finished_at"))
            if start is not None and stop is not None:
                seconds[phase] = seconds.get(phase, 0.0) + stop - start
    if begin is not None and end is not None:
        seconds |= {"start": begin, "total": end - begin}
    if seconds:
        yield "timing", seconds


def _verifier(folder: str, *, full: bool) -> Fields:
    """Yield the output of the verifier; only its names if the sample is not read in full."""
    found = (
        verifier_outputs(folder)
        if full and folder
        else dict.fromkeys(output_names(folder), "")
        if folder
        else {}
    )
    if found:
        yield "verifier", found


def _calls(result: Result) -> list[Call]:
    """Return the tokens of each turn that the agent gave to Harbor beside its trajectory."""
    context = result.get("agent_result")
    details = context.get("rollout_details") if isinstance(context, Mapping) else None
    main = details[0] if isinstance(details, list) and details else None
    if not isinstance(main, Mapping):
        return []
    return list(_turns(main))


def _turns(details: Mapping[str, Any]) -> Iterator[Call]:
    columns = {key: details.get(key) for key in ("prompt_token_ids", "completion_token_ids", "logprobs")}
    turns = columns["completion_token_ids"]
    for number in range(len(turns) if isinstance(turns, list) else 0):
        yield {
            key: column[number]
            for key, column in columns.items()
            if isinstance(column, list) and number < len(column)
        }
