"""Maps the keys of unknown files by hand: first records, values as a tree, mappings as texts, a preview."""
