"""Reads rollouts that are being generated, from live files beside the log: rlpanel's own, and prime-rl's."""
