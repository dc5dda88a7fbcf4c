"""Names of the tools of the MCP server that read, in the order in which it lists them."""

from __future__ import annotations

from rlpanel.queries.catalogue import QUESTIONS

READING = [*(question.name for question in QUESTIONS.values() if question.has_tool), "link", "show"]
