"""Hooks into trainers: patches their methods and turns their batches into rows."""
