"""Curves: one card a metric over all steps, with bands, overlay runs and the trainer's scalars."""
