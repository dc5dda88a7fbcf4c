"""Exit codes of the commands; `docs/cli.md` lists them."""

from __future__ import annotations

#: The whole run was read, and `check` found nothing.
OK = 0
#: `check` found a problem that is at least as severe as ``--fail-on``.
FOUND = 1
#: An error; its message is on stderr.
ERROR = 2
#: The output is right for what was read, but a file of the run was not read, or a rule failed.
INCOMPLETE = 3
