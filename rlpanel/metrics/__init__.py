"""Metrics, one module per subject: functions from arrays to arrays, independent of files and of Panel.

Importing a module registers its metrics; the order of the imports is the order in menus.
"""

from rlpanel.metrics import reward  # noqa: F401, I001
from rlpanel.metrics import kl_divergence  # noqa: F401
from rlpanel.metrics import token_means  # noqa: F401
from rlpanel.metrics import policy_update  # noqa: F401
from rlpanel.metrics import rollout_mismatch  # noqa: F401
from rlpanel.metrics import critic_value  # noqa: F401
from rlpanel.metrics import rollout_endings  # noqa: F401
from rlpanel.metrics import group  # noqa: F401
from rlpanel.metrics import group_advantage  # noqa: F401
