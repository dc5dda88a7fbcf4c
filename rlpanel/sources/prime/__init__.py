"""Reads the episodes of prime-rl and verifiers, and joins them with what was learned about them later."""
