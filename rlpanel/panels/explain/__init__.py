"""What changed: shares of a step's change, differences of two sets, repeated responses, a scatter plot."""
