"""Prompts and responses as text: chat templates, padding, shared beginnings, and their HTML."""
