"""Each hard case of each trainer has one answer: a test, a reason, or that the trainer does not have it."""

from __future__ import annotations

from docs import trainer_cases


def test_every_cell_has_one_answer() -> None:
    found = trainer_cases.answers()
    assert {cell: answer for cell, answer in found.items() if len(answer) != 1} == {}


def test_tests_and_reasons_name_known_trainers_and_cases() -> None:
    known = {(trainer, case) for trainer in trainer_cases.NOT_APPLICABLE for case in trainer_cases.CASES}
    named = trainer_cases.proven().keys() | trainer_cases.NOT_LOGGED.keys()
    assert named - known == set()
