"""Prompts over the steps: history of one prompt, and table of prompts that remain unsolved."""
