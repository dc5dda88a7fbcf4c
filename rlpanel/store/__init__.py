"""The store: keeps all samples of a run as columns and answers queries on snapshots of them."""
