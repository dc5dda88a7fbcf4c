"""Records and metrics become columns, aggregates and snapshots; one reader thread feeds them."""
