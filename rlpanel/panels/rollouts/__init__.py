"""Rollouts: many responses of a step as lines of coloured tokens."""
