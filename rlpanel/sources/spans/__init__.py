"""Adapters of trackers and tracers: Trackio, OpenTelemetry, MLflow, LangSmith and Langfuse.

They log calls of models, of which each becomes a sample, or whole traces with what a user asked and got.
Scores become rewards by name; the reward itself is only a score of that name.
"""
