"""What metrics are made of: the decorator, ragged arrays, segments, derived arrays, known constants."""
