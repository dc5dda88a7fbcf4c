"""The conversation of a sample: messages, tool calls with results, images, and the tokens of each turn."""
