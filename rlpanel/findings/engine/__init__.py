"""Building blocks of rules: the decorator, the context that a rule reads, step series, contrasts."""
