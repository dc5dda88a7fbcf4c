"""One step: its reward distribution, its means, and the bar that selects the step."""
