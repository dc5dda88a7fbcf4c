"""The gap between the logprobs of trainer and engine: its places, its cause, and what a correction does."""
