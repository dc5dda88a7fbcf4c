"""Hooks for trainers: they patch a trainer's methods and turn its batches into rows."""
