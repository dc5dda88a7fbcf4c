"""Curve cards: one metric over all steps per card, with bands, overlay runs and the trainer's scalars."""
