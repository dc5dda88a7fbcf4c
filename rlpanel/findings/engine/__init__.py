"""What rules are made of: the decorator, the context a rule reads, series over steps, group contrasts."""
