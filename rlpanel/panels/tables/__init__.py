"""Tables of samples, prompts, groups and tokens."""
