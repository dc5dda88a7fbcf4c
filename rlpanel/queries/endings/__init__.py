"""Questions about how rollouts ended: what judges said, and which failures are whose."""
