"""Names of language models, in the names of files, keys and values."""

from __future__ import annotations

import re

#: Names that only a model has, and those that are as well the end of a word: ``prompt`` ends like ``mpt``.
_MODEL = re.compile(
    r"(?:gpt[-_]?\d(?:\.\d)?[a-z]?(?:-?(?:mini|nano|turbo))?|gpt-?j|davinci|claude|gemini|gemma|llama|vicuna|alpaca-\d|mi[sx]tral|qwen|deepseek|falcon"
    r"|chatgpt|chatglm|glm-?\d|baichuan|internlm|codegen|starcoder|wizard|redpajama|pythia|command-r"
    r"|o[134]-(?:mini|preview)|(?<![a-z])(?:palm|phi-?\d|mpt|bloom|flan|t5|opt|olmo|yi|cohere))(?![a-z])"
    r"|(?<![a-z\d])\d+(?:\.\d+)?b(?![a-z\d])"
)


def models_in(text: str) -> set[str]:
    """Return the names of models in a text, without the marks between their parts."""
    return {re.sub(r"[-_.]", "", found[0]) for found in _MODEL.finditer(text.lower())}


def names_model(text: str) -> bool:
    """Return True if a text has the name of a model in it: ``gpt-4``, ``llama-2-7b`` or ``7b``."""
    return _MODEL.search(text.lower()) is not None
