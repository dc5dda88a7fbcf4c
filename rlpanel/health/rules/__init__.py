"""The rules, one subject a file. A new rule is one decorated function in one of them."""
