"""One table of the names that projects give to the parts of a conversation, each with its source.

A name means the same wherever it stands in a message, so a log may mix the spellings of several projects.
"""

from __future__ import annotations

from typing import NamedTuple


class Spelling(NamedTuple):
    """One name of a part of a conversation.

    Attributes
    ----------
    kind : str
        ``role``, ``message`` (a key of a message), ``part`` (the type or the only key of a part of the
        content), ``call`` (a key of a tool call), ``result`` (a key of a part that is a tool's result), or
        ``whole`` (a key of an object that holds the messages).
    means : str
        What is read from it.
    name : str
    source : str
        Project in whose files it occurs.
    """

    kind: str
    means: str
    name: str
    source: str


def _all(kind: str, means: str, names: str, source: str) -> list[Spelling]:
    return [Spelling(kind, means, name, source) for name in names.split()]


#: In each kind the first name that a log has counts.
SPELLINGS: tuple[Spelling, ...] = (
    *_all("role", "system", "system", "OpenAI"),
    *_all("role", "system", "SystemMessage SystemMessageChunk", "LangChain"),
    *_all("role", "developer", "developer", "OpenAI, Responses API"),
    *_all("role", "user", "user", "OpenAI"),
    *_all("role", "user", "human", "ShareGPT, LangChain"),
    *_all("role", "user", "HumanMessage HumanMessageChunk", "LangChain"),
    *_all("role", "assistant", "assistant", "OpenAI"),
    *_all("role", "assistant", "gpt bot chatbot", "ShareGPT, FastChat"),
    *_all("role", "assistant", "chatgpt bing bard", "ShareGPT"),
    *_all("role", "assistant", "model", "Gemini"),
    *_all("role", "assistant", "ai AIMessage AIMessageChunk", "LangChain"),
    *_all("role", "assistant", "agent", "atropos, SWE-agent"),
    *_all("role", "assistant", "llm", "logs of agents"),
    *_all("role", "tool", "tool", "OpenAI"),
    *_all("role", "tool", "function", "OpenAI, before tools"),
    *_all("role", "tool", "ToolMessage ToolMessageChunk FunctionMessage", "LangChain"),
    *_all("role", "tool", "ipython", "Llama 3"),
    *_all("role", "tool", "observation", "GLM, LLaMA-Factory"),
    *_all("role", "tool", "function_response function-response tool_response", "glaive, Hermes"),
    *_all("role", "tool", "toolResult", "Pi"),
    *_all("role", "environment", "environment", "atropos, AReaL"),
    *_all("role", "call", "function_call function-call tool_call", "LLaMA-Factory, glaive, Hermes"),
    *_all("message", "role", "role", "OpenAI"),
    *_all("message", "role", "from", "ShareGPT"),
    *_all("message", "role", "author", "ChatGPT's export"),
    *_all("message", "role", "speaker", "annotated dialogues"),
    *_all("message", "role", "type", "LangChain"),
    *_all("message", "content", "content", "OpenAI"),
    *_all("message", "content", "value", "ShareGPT"),
    *_all("message", "content", "parts", "Gemini, OpenTelemetry"),
    *_all("message", "content", "text", "annotated dialogues"),
    *_all("message", "content", "refusal", "OpenAI"),
    *_all("message", "content", "prompt", "OpenCompass"),
    *_all("message", "reasoning", "reasoning_content", "DeepSeek, vLLM, SGLang"),
    *_all("message", "reasoning", "reasoning", "OpenRouter, gpt-oss"),
    *_all("message", "reasoning", "thinking", "Ollama"),
    *_all("message", "reasoning", "reasoning_details", "OpenRouter"),
    *_all("message", "reasoning", "thinking_blocks", "LiteLLM"),
    *_all("message", "reasoning", "reasoningContent", "Hugging Face's session traces"),
    *_all("message", "calls", "tool_calls", "OpenAI"),
    *_all("message", "calls", "function_call", "OpenAI, before tools"),
    *_all("message", "calls", "toolCalls", "Mistral's TypeScript client"),
    *_all("message", "id", "tool_call_id", "OpenAI"),
    *_all("message", "id", "toolCallId", "Vercel AI SDK"),
    *_all("message", "id", "tool_use_id", "Anthropic"),
    *_all("part", "reasoning", "thinking", "Anthropic"),
    *_all("part", "reasoning", "reasoning", "LangChain, Vercel AI SDK, OpenTelemetry"),
    *_all("part", "reasoning", "reasoningContent", "Amazon Bedrock"),
    *_all("part", "hidden", "redacted_thinking", "Anthropic"),
    *_all("part", "hidden", "reasoning.encrypted", "OpenRouter"),
    *_all("part", "call", "tool_use server_tool_use mcp_tool_use", "Anthropic"),
    *_all("part", "call", "tool_call", "LangChain, OpenTelemetry"),
    *_all("part", "call", "tool-call", "Vercel AI SDK"),
    *_all("part", "call", "functionCall function_call", "Gemini"),
    *_all("part", "call", "toolUse", "Amazon Bedrock"),
    *_all("part", "call", "toolCall", "Pi"),
    *_all("part", "result", "tool_result mcp_tool_result web_search_tool_result", "Anthropic"),
    *_all("part", "result", "code_execution_tool_result", "Anthropic"),
    *_all("part", "result", "tool-result", "Vercel AI SDK"),
    *_all("part", "result", "tool_call_response", "OpenTelemetry"),
    *_all("part", "result", "functionResponse function_response", "Gemini"),
    *_all("part", "result", "toolResult", "Amazon Bedrock"),
    *_all("call", "name", "name", "OpenAI"),
    *_all("call", "name", "toolName", "Vercel AI SDK"),
    *_all("call", "name", "tool_name function_name", "logs of agents"),
    *_all("call", "arguments", "arguments", "OpenAI"),
    *_all("call", "arguments", "args", "LangChain, Gemini"),
    *_all("call", "arguments", "parameters", "Llama 3, Cohere"),
    *_all("call", "arguments", "input", "Anthropic"),
    *_all("call", "id", "id", "OpenAI"),
    *_all("call", "id", "toolCallId", "Vercel AI SDK"),
    *_all("call", "id", "toolUseId", "Amazon Bedrock"),
    *_all("result", "content", "content", "Anthropic"),
    *_all("result", "content", "output", "Vercel AI SDK"),
    *_all("result", "content", "result", "OpenTelemetry"),
    *_all("result", "content", "response", "Gemini, OpenTelemetry"),
    *_all("result", "id", "tool_use_id", "Anthropic"),
    *_all("result", "id", "toolCallId", "Vercel AI SDK"),
    *_all("result", "id", "toolUseId", "Amazon Bedrock"),
    *_all("result", "id", "id", "OpenTelemetry, Gemini"),
    *_all("result", "name", "name", "Gemini"),
    *_all("result", "name", "toolName", "Vercel AI SDK"),
    *_all("whole", "messages", "messages", "OpenAI, LangGraph"),
    *_all("whole", "messages", "conversations conversation", "ShareGPT"),
    *_all("whole", "messages", "contents", "Gemini"),
    *_all("whole", "messages", "choices", "OpenAI's responses"),
    *_all("whole", "messages", "candidates", "Gemini's responses"),
    *_all("whole", "messages", "output", "OpenAI, Responses API"),
)


def names_of(kind: str, means: str) -> tuple[str, ...]:
    """Return the names with one meaning, the preferred one first."""
    return tuple(each.name for each in SPELLINGS if (each.kind, each.means) == (kind, means))


#: Meaning of a role by its name in lower case.
ROLE_OF = {each.name.lower(): each.means for each in SPELLINGS if each.kind == "role"}
#: Meaning of a content's part by its type, or by the only key of a part without a type.
PART_OF = {each.name: each.means for each in SPELLINGS if each.kind == "part"}
#: Roles that messages have after they were read. Other roles stay as they were logged.
ROLES = frozenset(ROLE_OF.values()) - {"call"}
#: Roles that LangChain's ``type`` may name; elsewhere ``type`` is the type of something else.
TYPE_ROLES = frozenset({"human", "ai", "system", "tool", "function", "developer"}) | {
    name for name in ROLE_OF if name.endswith(("message", "messagechunk"))
}


def role_of(name: str) -> str:
    """Return the product's role of a logged one: ``assistant`` for ``gpt``; unknown roles stay."""
    return ROLE_OF.get(name) or ROLE_OF.get(name.lower(), name)
