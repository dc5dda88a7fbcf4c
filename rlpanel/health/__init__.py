"""Rules over a snapshot, and the findings they make."""
