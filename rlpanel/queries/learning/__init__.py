"""Questions about learning: updates, what the reward pays for, tokens and prompts over training."""
