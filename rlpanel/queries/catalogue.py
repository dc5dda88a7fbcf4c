"""All questions by name: importing this module registers them, in the order in which they are listed."""

from __future__ import annotations

from importlib import import_module

from rlpanel.errors import SettingError
from rlpanel.queries.question import QUESTIONS, Question

__all__ = ["QUESTIONS", "question_of"]

#: The modules of questions.
_MODULES = (
    *("runs", "steps", "samples", "sample", "groups", "prompt_list", "tokens", "findings", "differences"),
    *("compare", "explain", "search", "notes", "sql"),
)
for _name in _MODULES:
    import_module(f"rlpanel.queries.{_name}")


def question_of(name: str) -> Question[...]:
    """Return a question by its name.

    Raises
    ------
    SettingError
        If there is no such question.
    """
    from rlpanel.queries.run_columns import similar

    if name not in QUESTIONS:
        raise SettingError(f"there is no table {name[:80]!r}{similar(name, QUESTIONS)}")
    return QUESTIONS[name]
