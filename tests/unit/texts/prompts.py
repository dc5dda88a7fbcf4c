"""One question in every chat template that is recognised, as tokenizers write it."""

from __future__ import annotations

SYSTEM, EARLIER, QUESTION = "You are a helpful assistant.", "What is 1 + 1?", "What is 2 + 2?"

#: Name → prompt. The names of the turns follow in `ROLES`.
PROMPTS = {
    "Qwen": f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{QUESTION}<|im_end|>\n"
    "<|im_start|>assistant\n",
    "Qwen, thinking off": f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n",
    "Qwen, tools": f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n<tool_call>\nadd\n"
    "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n",
    "Phi 4": f"<|im_start|>system<|im_sep|>{SYSTEM}<|im_end|><|im_start|>user<|im_sep|>{QUESTION}<|im_end|>"
    "<|im_start|>assistant<|im_sep|>",
    "Kimi": f"<|im_system|>system<|im_middle|>{SYSTEM}<|im_end|><|im_user|>user<|im_middle|>{QUESTION}"
    "<|im_end|><|im_assistant|>assistant<|im_middle|>",
    "Llama 3": f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{SYSTEM}<|eot_id|>"
    f"<|start_header_id|>user<|end_header_id|>\n\n{QUESTION}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "Llama 4": f"<|begin_of_text|><|header_start|>user<|header_end|>\n\n{QUESTION}<|eot|>"
    "<|header_start|>assistant<|header_end|>\n\n",
    "Llama 2": f"<s>[INST] <<SYS>>\n{SYSTEM}\n<</SYS>>\n\n{EARLIER} [/INST] 2 </s>"
    f"<s>[INST] {QUESTION} [/INST]",
    "Mistral": f"<s>[SYSTEM_PROMPT]{SYSTEM}[/SYSTEM_PROMPT][INST]{QUESTION}[/INST]",
    "Gemma": f"<bos><start_of_turn>user\n{QUESTION}<end_of_turn>\n<start_of_turn>model\n",
    "DeepSeek": f"<｜begin▁of▁sentence｜>{SYSTEM}<｜User｜>{EARLIER}<｜Assistant｜>2<｜end▁of▁sentence｜>"
    f"<｜User｜>{QUESTION}<｜Assistant｜><think>\n",
    "DeepSeek, ASCII": f"<|begin_of_sentence|>{SYSTEM}<|User|>{QUESTION}<|Assistant|>",
    "DeepSeek V2": f"<｜begin▁of▁sentence｜>{SYSTEM}\n\nUser: {QUESTION}\n\nAssistant:",
    "Phi 3": f"<|system|>\n{SYSTEM}<|end|>\n<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n",
    "Zephyr": f"<|system|>\n{SYSTEM}</s>\n<|user|>\n{QUESTION}</s>\n<|assistant|>\n",
    "GLM": f"[gMASK]<sop><|system|>\n{SYSTEM}<|user|>\n{QUESTION}<|assistant|>\n",
    "rlpanel's PPO demo": f"<|user|>{QUESTION}<|assistant|>",
    "harmony": f"<|start|>system<|message|>{SYSTEM}<|end|><|start|>developer<|message|># Instructions<|end|>"
    f"<|start|>user<|message|>{QUESTION}<|end|><|start|>assistant",
    "harmony, tools": f"<|start|>user<|message|>{QUESTION}<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.add <|constrain|>json<|message|>{}<|call|><|start|>functions.add to=assistant"
    "<|channel|>commentary<|message|>4<|end|><|start|>assistant",
    "Granite": f"<|start_of_role|>system<|end_of_role|>{SYSTEM}<|end_of_text|>\n<|start_of_role|>user"
    f"<|end_of_role|>{QUESTION}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
    "Command": f"<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{SYSTEM}<|END_OF_TURN_TOKEN|>"
    f"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{QUESTION}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
    "<|CHATBOT_TOKEN|>",
    "Seed": f"<seed:bos>system\n{SYSTEM}<seed:eos><seed:bos>user\n{QUESTION}<seed:eos><seed:bos>assistant\n",
    "rlpanel's adapters": f"[system] {SYSTEM}\n[user] {QUESTION}",
    "rlpanel's adapters, tools": f"[user] {QUESTION}\n[assistant] [call] add(2)\n[tool] 4",
    "ChatML, plain": f"system\n{SYSTEM}\nuser\n{QUESTION}\nassistant\n",
    "Llama 3, plain": f"system\n\n{SYSTEM}user\n\n{QUESTION}assistant\n\n",
    "Gemma, plain": f"user\n{QUESTION}\nmodel\n",
    "HH": f"\n\nHuman: {EARLIER}\n\nAssistant: 2\n\nHuman: {QUESTION}\n\nAssistant:",
    "TinyZero": "A conversation between User and Assistant. The user asks a question.\n"
    f"User: {QUESTION}\nAssistant: Let me solve this step by step.\n<think>",
    "R1-Zero": "A conversation between User and Assistant: <think> reasoning </think>. "
    f"User: {QUESTION} Assistant:",
    "few shots": f"Question: {EARLIER}\nAnswer: 2\n\nQuestion: {QUESTION}\nAnswer:",
    "Alpaca": f"Below is an instruction.\n\n### Instruction:\n{QUESTION}\n\n### Response:\n",
}
_WITH_TOOLS = "user assistant tool assistant"
_WITH_EARLIER = "user assistant user assistant"
#: Name → roles of the turns; others have a system prompt, the question, and the assistant's turn.
ROLES = {
    **dict.fromkeys(("Qwen, tools", "harmony, tools"), _WITH_TOOLS),
    **dict.fromkeys(
        ("Qwen, thinking off", "Llama 4", "Gemma", "rlpanel's PPO demo", "Gemma, plain"), "user assistant"
    ),
    **dict.fromkeys(("Llama 2", "DeepSeek"), f"system {_WITH_EARLIER}"),
    **dict.fromkeys(("HH", "few shots"), _WITH_EARLIER),
    "harmony": "system developer user assistant",
    "rlpanel's adapters": "system user",
    "rlpanel's adapters, tools": "user assistant tool",
}
USUAL = "system user assistant"
