"""The rules, one subject a file. A new rule is one decorated function in one of them.

Importing a subject registers its rules; the order here is the order of the documentation.
"""

from rlpanel.findings.rules import response_length  # noqa: F401, I001
from rlpanel.findings.rules import group_signal  # noqa: F401
from rlpanel.findings.rules import log_quality  # noqa: F401
from rlpanel.findings.rules import outlier_steps  # noqa: F401
from rlpanel.findings.rules import policy_drift  # noqa: F401
from rlpanel.findings.rules import response_text  # noqa: F401
