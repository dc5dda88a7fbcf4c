"""Broken and healthy runs in the kinds that public reports describe, made without knowledge of the rules.

A run is drawn sample by sample: prompts of several tasks, worked solutions, tool calls, token logprobs.
"""
