"""Store: keeps all samples of a run as columns and answers queries on immutable snapshots."""
