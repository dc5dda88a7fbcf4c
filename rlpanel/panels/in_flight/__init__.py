"""Page of the run with the rollouts that are being generated: the slowest, and what each batch waits for."""
