"""What the browser gets of a conversation: here of a turn that the log's prompt begins."""

from __future__ import annotations

import re

import numpy as np

from rlpanel.panels.conversation.conversation_payload import pack_conversation, part_text
from rlpanel.schema import Sample

PROMPT = "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\nI add the two "
RESPONSE = "numbers now.<|im_end|>\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\nIt is 4.<|im_end|>"


def test_a_turn_that_the_prompt_begins_has_the_tokens_of_its_rest() -> None:
    tokens = re.findall(r"<\|\w+\|>|\s*[^\s<]+|\s+", RESPONSE)
    written = np.zeros(len(tokens))
    written[:3] = written[-4:] = 1.0
    sample = Sample(
        uid="a:0", step=1, prompt=PROMPT, response=RESPONSE, response_tokens=tokens, loss_mask=written
    )
    packed = pack_conversation(sample)
    user, first, _, last = packed.payload["blocks"]
    assert (user["given"], first["turn"], last["turn"]) == (True, 1, 2)
    assert first["text"]["text"] == "I add the two numbers now."
    assert first["begun"]["text"] == part_text(packed.blocks, 1, "begun") == "I add the two "
    assert "begun" not in last
    assert first["tokens"] == (0, 3)
    assert "its first 14 characters are in the prompt" in packed.payload["notes"][0]
