"""Arrays in, arrays out: no files, no panel.

Importing a subject declares its metrics; the order here is the order of menus.
"""

from rlpanel.metrics import reward, divergence, update, value  # noqa: F401, I001
