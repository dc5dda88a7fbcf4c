"""The weight of each token in the gradient of a step, and what other losses make of the same batch."""
