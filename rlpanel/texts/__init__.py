"""Texts of prompts, responses and tokens in a form that people can read, without HTML."""
