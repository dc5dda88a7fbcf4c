"""The selected step: its reward distribution, its means, and the bar that selects it."""
