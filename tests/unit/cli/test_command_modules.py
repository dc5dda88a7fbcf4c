"""The names of commands stand beside their modules, so that a command imports its own module alone."""

from __future__ import annotations

from importlib import import_module

import pytest

from rlpanel.cli.commands import MODULES, commands

LISTED = {module: names for panel in MODULES.values() for module, names in panel.items()}


@pytest.mark.parametrize("module", LISTED)
def test_a_module_has_the_commands_that_are_listed(module: str) -> None:
    declared = import_module(f"rlpanel.cli.{module}").COMMANDS
    assert tuple(command.__name__.replace("_", "-") for command in declared) == LISTED[module]


def test_all_listed_commands_exist() -> None:
    assert {name for names in LISTED.values() for name in names} <= commands().keys()
