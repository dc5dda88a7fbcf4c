"""Adapters of the formats in which trajectories travel: files of agents, evaluations and sessions."""
