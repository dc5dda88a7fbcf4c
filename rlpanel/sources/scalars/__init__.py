"""The trainer's own scalars (loss, learning rate, …): where they lie beside a run, and one reader a kind."""
