"""The rules, one module per subject. A new rule is one decorated function in one of them.

Importing a module registers its rules; the order of the imports is their order in the documentation.
"""

from rlpanel.findings.rules import log_quality  # noqa: F401, I001
from rlpanel.findings.rules import missing_rewards  # noqa: F401
from rlpanel.findings.rules import repeated_samples  # noqa: F401
from rlpanel.findings.rules import rank_difference  # noqa: F401
from rlpanel.findings.rules import engine_mismatch  # noqa: F401
from rlpanel.findings.rules import response_text  # noqa: F401
from rlpanel.findings.rules import response_repetition  # noqa: F401
from rlpanel.findings.rules import response_length  # noqa: F401
from rlpanel.findings.rules import group_signal  # noqa: F401
from rlpanel.findings.rules import advantages  # noqa: F401
from rlpanel.findings.rules import critic  # noqa: F401
from rlpanel.findings.rules import policy_drift  # noqa: F401
from rlpanel.findings.rules import held_out  # noqa: F401
from rlpanel.findings.rules import turns  # noqa: F401
from rlpanel.findings.rules import failing_tools  # noqa: F401
from rlpanel.findings.rules import rewarded_errors  # noqa: F401
from rlpanel.findings.rules import unused_samples  # noqa: F401
from rlpanel.findings.rules import staleness  # noqa: F401
from rlpanel.findings.rules import sustained_change  # noqa: F401
from rlpanel.findings.rules import outlier_steps  # noqa: F401
