"""The table of hard cases: trainer × case → read right, not applicable, or not logged by the trainer's files.

A cell is right if a test carries ``@pytest.mark.case(trainer, case)``: the tests fill the table. All other
cells are declared here. `tests/unit/test_trainer_cases.py` checks that each cell has exactly one answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"

#: Key of a case → what it is.
CASES = {
    "evaluation": "an evaluation at the step of training",
    "aborted": "a sample that was aborted",
    "masked": "a sample or tokens that are not in the loss",
    "failure": "a failure without a rollout",
    "data sets": "two data sets or environments",
    "fork": "several rows of one episode: forks, turns, outputs",
    "compaction": "a summary of the conversation that was not used",
    "resume": "a resumed run that writes lost steps again",
    "ranks": "two ranks that write",
}

#: Cases that a trainer does not have, or in which its files hold no training samples.
NOT_APPLICABLE = {
    "TRL": ("aborted", "failure", "fork", "compaction", "ranks"),
    "TRL, recorded": ("aborted", "failure", "data sets", "fork", "compaction"),
    "ms-swift": ("aborted", "failure", "fork", "compaction", "ranks"),
    "verl": ("aborted", "failure", "compaction", "ranks"),
    "verl, hook": ("evaluation", "aborted", "failure", "data sets", "compaction", "ranks"),
    "OpenRLHF, hook": ("evaluation", "aborted", "failure", "data sets", "fork", "compaction", "ranks"),
    "SkyRL": ("aborted", "failure", "compaction", "ranks"),
    "tinker-cookbook": ("aborted", "masked", "fork", "compaction", "ranks"),
    "AReaL": ("aborted", "masked", "failure", "fork", "compaction", "ranks"),
    "prime-rl": (),
    "verifiers": ("aborted", "masked", "resume", "ranks"),
    "NeMo-RL": ("aborted", "failure", "fork", "compaction", "ranks"),
    "rLLM": ("aborted", "fork", "compaction", "ranks"),
    "NeMo Gym": ("evaluation", "aborted", "fork", "compaction", "ranks"),
    "miles": ("failure", "fork", "compaction", "ranks"),
    "slime": ("failure", "fork", "compaction", "resume"),
    "ROLL": ("evaluation", "aborted", "failure", "fork", "compaction", "ranks"),
    "ROLL, agentic": ("aborted", "compaction", "ranks"),
    "open-instruct": ("evaluation", "aborted", "failure", "fork", "compaction"),
}

_NO_MASK = "the file has no mask of tokens or samples"
_NO_SOURCE = "the file does not name the data set of a sample"
_APPENDED = "lines of lost steps stay in the file, and nothing in a line names the attempt"

#: Trainer and case → why its files cannot answer.
NOT_LOGGED = {
    ("TRL", "masked"): _NO_MASK,
    ("TRL", "data sets"): _NO_SOURCE,
    ("ms-swift", "masked"): _NO_MASK,
    ("ms-swift", "data sets"): _NO_SOURCE,
    ("verl", "masked"): _NO_MASK,
    ("SkyRL", "masked"): _NO_MASK,
    ("tinker-cookbook", "failure"): "groups whose rollouts failed are left out of the file",
    ("AReaL", "data sets"): _NO_SOURCE,
    ("AReaL", "resume"): _APPENDED,
    ("prime-rl", "resume"): _APPENDED,
    ("NeMo-RL", "data sets"): _NO_SOURCE,
    ("rLLM", "masked"): _NO_MASK,
    ("rLLM", "data sets"): "a task has keys of its environment's own",
    ("rLLM", "resume"): "a file is named by the episode's id; where ids are random, those of lost steps stay",
    ("miles", "data sets"): _NO_SOURCE,
    ("slime", "data sets"): _NO_SOURCE,
    ("ROLL", "masked"): _NO_MASK,
    ("ROLL, agentic", "masked"): _NO_MASK,
    ("open-instruct", "masked"): "tokens of tools have a logprob of 0, as sampled ones may have",
}


def proven() -> dict[tuple[str, str], list[str]]:
    """Return the tests of each trainer and case, as ``path::name``."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(_TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.case(" not in text:
            continue
        for function in ast.parse(text).body:
            if isinstance(function, ast.FunctionDef):
                for cell in _marks(function):
                    found.setdefault(cell, []).append(f"{path.relative_to(_TESTS)}::{function.name}")
    return found


def _marks(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.case":
            trainer, case = (ast.literal_eval(argument) for argument in mark.args)
            yield trainer, case


def answers() -> dict[tuple[str, str], list[str]]:
    """Return all answers to each cell; one each, if tests and declarations agree."""
    found: dict[tuple[str, str], list[str]] = {
        (trainer, case): [] for trainer in NOT_APPLICABLE for case in CASES
    }
    declared = [((trainer, case), "–") for trainer, cases in NOT_APPLICABLE.items() for case in cases]
    declared += [(cell, "not logged") for cell in NOT_LOGGED]
    for cell, answer in [*declared, *((cell, "right") for cell in proven())]:
        found.setdefault(cell, []).append(answer)
    return found


def cases_table() -> str:
    """Return the table of cases, what its columns mean, and why some are not logged."""
    cells = answers()
    head = [f"| trainer | {' | '.join(CASES)} |", "|---" * (len(CASES) + 1) + "|"]
    rows = [
        f"| {trainer} | {' | '.join(', '.join(cells[trainer, case]) for case in CASES)} |"
        for trainer in NOT_APPLICABLE
    ]
    meanings = [f"- *{case}*: {meaning}" for case, meaning in CASES.items()]
    reasons: dict[str, list[str]] = {}
    for (trainer, case), reason in NOT_LOGGED.items():
        reasons.setdefault(reason, []).append(f"{trainer} ({case})")
    why = [f"- {', '.join(cells)}: {reason}." for reason, cells in reasons.items()]
    return "\n".join([*head, *rows, "", *meanings, "", "What is not logged:", "", *why])
