"""Prompts over the steps: history of one prompt, and prompts that stay unsolved."""
