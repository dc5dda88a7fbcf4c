"""Replay of a rollout: the playhead that conversation and tree share, its buttons, and its sentences."""
