"""Page of the gap between the logprobs of trainer and engine: its cause, its places, and corrections."""
