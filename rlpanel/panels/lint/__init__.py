"""Page of the run with the results of the lint rules: failed with samples, passed, and what to log."""
