"""Groups: the samples of one prompt in one step, as strip, table and cards."""
