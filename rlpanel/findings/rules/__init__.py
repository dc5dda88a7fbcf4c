"""The rules, one module per subject. A new rule is one decorated function in one of them.

Importing a module registers its rules; the order of the imports is their order in the documentation.
"""

from rlpanel.findings.rules import log_quality  # noqa: F401, I001
from rlpanel.findings.rules import ranks  # noqa: F401
from rlpanel.findings.rules import prompt_data  # noqa: F401
from rlpanel.findings.rules import step_contents  # noqa: F401
from rlpanel.findings.rules import reward_sums  # noqa: F401
from rlpanel.findings.rules import scalar_changes  # noqa: F401
from rlpanel.findings.rules import evaluations  # noqa: F401
from rlpanel.findings.rules import engine_mismatch  # noqa: F401
from rlpanel.findings.rules import texts  # noqa: F401
from rlpanel.findings.rules import tool_texts  # noqa: F401
from rlpanel.findings.rules import answer_rewards  # noqa: F401
from rlpanel.findings.rules import phrases  # noqa: F401
from rlpanel.findings.rules import logprob_changes  # noqa: F401
from rlpanel.findings.rules import responses  # noqa: F401
from rlpanel.findings.rules import lengths  # noqa: F401
from rlpanel.findings.rules import advantages  # noqa: F401
from rlpanel.findings.rules import critic  # noqa: F401
from rlpanel.findings.rules import policy_drift  # noqa: F401
from rlpanel.findings.rules import held_out  # noqa: F401
from rlpanel.findings.rules import classes  # noqa: F401
from rlpanel.findings.rules import tools_and_turns  # noqa: F401
from rlpanel.findings.rules import unused_samples  # noqa: F401
from rlpanel.findings.rules import curve_changes  # noqa: F401
from rlpanel.findings.rules import unnamed_changes  # noqa: F401
