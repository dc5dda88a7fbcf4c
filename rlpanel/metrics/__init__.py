"""Arrays in, arrays out: no files, no panel.

Importing a subject declares its metrics; the order here is the order of menus.
"""

from rlpanel.metrics import reward, penalty, divergence, pooled, update, mismatch, value  # noqa: F401, I001
from rlpanel.metrics import length, group, encoding, text  # noqa: F401
