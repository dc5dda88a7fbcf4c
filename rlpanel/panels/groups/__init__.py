"""Groups of samples that share a prompt within a step: as a plot, a table and cards."""
