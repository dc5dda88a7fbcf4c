"""Gate: whether a new run is worse than the spread of its baselines allows."""
