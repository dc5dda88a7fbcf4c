"""Samples of agents for tests: conversations with tools, images, rewards of turns and tokens."""

from __future__ import annotations

import base64
import io
import json
import random
import re
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

QUESTION = (
    "Convert 3.7 mi to km. Use $1\\,\\text{mi} = 1.609344\\,\\text{km}$:\n\n\\[ y = \\frac{x}{0.621371} \\]"
)
ANSWER = (
    "The tool **failed again**, so I state the value:\n\n- 3.7 mi is `5.95` km\n\n| unit | value |\n"
    "|---|---|\n| km | 5.95 |\n\n```python\nprint(3.7 * 1.609344)\n```\n[a source](https://outside.invalid/page)"
)
TRACEBACK = "Traceback (most recent call last):\n  File \"<stdin>\", line 1\nNameError: name 'convert'"


def picture(color: str = "orange", size: tuple[int, int] = (320, 180)) -> bytes:
    """Return an image file with one rectangle."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((20, 20, size[0] - 60, size[1] - 40), fill=color)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def data_url(image: bytes) -> str:
    """Return an image file as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def called(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    """Return a tool call."""
    return {"id": f"call-{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}


def episode(step: int = 1, index: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a sample of three turns: a call that works, one that fails, and an answer; with tokens."""
    question = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": data_url(picture())}},
        {"type": "image", "image": "images/chart.png"},
    ]
    thought = "The user wants a conversion, so I call the tool and check its result. " * 3
    prompt = [
        {"role": "system", "content": "You can run Python.\nAnswer in one sentence."},
        {"role": "user", "content": question},
    ]
    response = [
        {
            "role": "assistant",
            "reasoning_content": thought,
            "content": "",
            "tool_calls": [called("python", 1, code="3.7 * 1.6")],
        },
        {"role": "tool", "tool_call_id": "call-1", "content": '{"ok": true, "value": 5.92}'},
        {
            "role": "assistant",
            "content": "Once more.",
            "tool_calls": [called("python", 2, code="convert(3.7)")],
        },
        {"role": "tool", "tool_call_id": "call-2", "content": TRACEBACK},
        {"role": "assistant", "content": ANSWER},
    ]
    chance = random.Random(f"{step}-{index}")
    tokens, mask = _tokens(response)
    made: dict[str, Any] = {
        "step": step,
        "messages": prompt + response,
        "prompt_messages": len(prompt),
        "reward": round(chance.random(), 3),
        "turn_rewards": [0.0, -0.1, 0.8],
        "policy_version": [[44, 60], [45, len(tokens) - 60]],
        "group": f"{step}-{index // 4}",
        "response_tokens": tokens,
        "loss_mask": mask,
        "logprobs": [round(-chance.expovariate(1.5), 4) for _ in tokens],
        "ref_logprobs": [round(-chance.expovariate(1.2), 4) for _ in tokens],
        "judge": {"rubric": "The number is right. Tools were tried and failed."},
    }
    return made | fields


def _tokens(response: list[dict[str, Any]]) -> tuple[list[str], list[int]]:
    """Return the words of a response as its tokens, and its loss mask."""
    tokens: list[str] = []
    mask: list[int] = []
    for message in response:
        calls = " ".join(
            f"{call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls", ())
        )
        words = re.findall(
            r"\s*\S+", " ".join((message.get("reasoning_content", ""), message["content"], calls))
        )
        tokens += words
        mask += [int(message["role"] == "assistant")] * len(words)
    return tokens, mask


def long_episode(turns: int = 100, characters: int = 10_000, **fields: Any) -> dict[str, Any]:
    """Return a sample with a call and a long result in each of its turns; every tenth call fails."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read the whole table."}]
    for turn in range(turns):
        text = f"row of page {turn}\n" * (characters // 14)
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [called("browser", turn, page=turn)]}
        )
        messages.append(
            {"role": "tool", "tool_call_id": f"call-{turn}", "content": text, "is_error": turn % 10 == 9}
        )
    messages.append({"role": "assistant", "content": "Read."})
    return {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 0.5, "group": "long"} | fields


#: What the agent of `repair_episode` looks for, and the turns in which its search fails.
LOOKED_FOR = "IndexError nested quotes lexer"
FAILED_SEARCHES = (24, 25, 26, 31, 38, 47, 52)
INDEX_ERROR = "ToolError: search index was built at 4f1c, tree is at 9be2\n" + "\n".join(
    f"  shard {shard} of 40: no answer for '{LOOKED_FOR}' after 4.0 s" for shard in range(40)
)


def repair_episode(turns: int = 60, **fields: Any) -> dict[str, Any]:
    """Return a sample of an agent that repairs code; from turn 24 on its searches fail."""
    chance = random.Random(turns)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You repair code.\n" + "Work in small steps. " * 40},
        {"role": "user", "content": "Make tests/test_parser.py pass. The lexer fails for nested quotes."},
    ]
    rewards: list[float | None] = []
    for turn in range(1, turns):
        fails = turn in FAILED_SEARCHES
        name = "search" if fails or turn in (2, 11) else chance.choice(("bash", "read", "edit", "read"))
        arguments: dict[str, Any] = {
            "search": {"query": LOOKED_FOR if turn % 2 == 0 else "lexer.push"},
            "bash": {"cmd": "pytest -q tests/test_parser.py"},
            "read": {"path": "src/lexer.py", "lines": f"{turn}-{turn + 24}"},
            "edit": {"path": "src/lexer.py", "old": "stack[-1]", "new": "if stack:\n    top = stack[-1]"},
        }[name]
        text = "\n".join(f"{line} line {line} of what {name} found" for line in range(turn % 40 + 1))
        messages += [
            {
                "role": "assistant",
                "content": f"Step {turn}: I use {name}.",
                "tool_calls": [called(name, turn, **arguments)],
                "seconds": round(chance.uniform(0.1, 1), 1),
            }
            | (
                {"reasoning_content": "The traceback alone does not say enough. " * 12}
                if turn % 6 == 0
                else {}
            ),
            {
                "role": "tool",
                "tool_call_id": f"call-{turn}",
                "content": INDEX_ERROR if fails else text,
                "is_error": fails,
                "seconds": round(12 + chance.random(), 1) if fails else round(chance.uniform(0.1, 3), 1),
            },
        ]
        rewards.append(-0.1 if fails else 0.05 if turn in (9, 13, 18, 23, 44) else 0.0)
    messages.append({"role": "assistant", "content": "The tests do not pass yet."})
    made = {"step": 1, "messages": messages, "prompt_messages": 2, "reward": 0.0, "group": "repair"}
    return made | {"turn_rewards": [*rewards, -0.2]} | fields


def gallery_episode(**fields: Any) -> dict[str, Any]:
    """Return a sample whose question has images between its words, and a tool's result with one."""
    colors = ("orange", "green", "blue", "red", "purple", "teal")
    images = [{"type": "image_url", "image_url": {"url": data_url(picture(color))}} for color in colors]
    question = [
        {"type": "text", "text": "Here is the first frame:"},
        images[0],
        {"type": "text", "text": "Then come four more:"},
        *images[1:5],
        {"type": "text", "text": "Which colour comes last?"},
    ]
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": "I zoom in.", "tool_calls": [called("zoom", 1, frame=5)]},
        {
            "role": "tool",
            "tool_call_id": "call-1",
            "content": [{"type": "text", "text": "The crop:"}, images[5]],
        },
        {"role": "assistant", "content": "Purple."},
    ]
    return {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0, "group": "images"} | fields


def write_agent_run(folder: Path, *lines: dict[str, Any]) -> Path:
    """Write a run with these samples, and the image file that an episode names."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "images" / "chart.png").write_bytes(picture("green", (900, 500)))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "rollout_data_rank_0.jsonl").write_text(text)
    return folder
