"""The rules, one module per subject. A new rule is one decorated function in one of them.

Importing a module registers its rules; the order of the imports is their order in the documentation.
"""

from rlpanel.findings.rules import response_length  # noqa: F401, I001
from rlpanel.findings.rules import group_signal  # noqa: F401
from rlpanel.findings.rules import log_quality  # noqa: F401
from rlpanel.findings.rules import outlier_steps  # noqa: F401
from rlpanel.findings.rules import policy_drift  # noqa: F401
from rlpanel.findings.rules import response_text  # noqa: F401
