"""Questions about several runs: compared prompts, settings, where two runs part, the gate."""
