"""Framework for metrics: the decorator, ragged arrays, segments, derived arrays, training constants."""
