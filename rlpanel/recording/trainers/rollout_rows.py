"""Functions that turn a trainer's padded batches into fields of rows.

Decodes each token of a response to a text, so that the texts concatenate to the whole response.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

#: Names under which a data set may hold the expected answer.
TRUTHS = ("ground_truth", "golden_answer", "answer", "solution")
#: What is in a row already, under another name, or is too large for a column.
_NOT_COLUMNS = {
    *("prompt", "prompts", "completion", "completions", "completion_ids"),
    *("image", "images", "audio", "video", "messages"),
}


def to_host(values: Any) -> Any:
    """Copy a tensor to host memory; floats become float32, other types stay."""
    values = values.detach()
    values = values.float() if values.is_floating_point() else values
    return values.clone() if values.device.type == "cpu" else values.cpu()


def text_of(value: Any) -> str:
    """Return a completion or prompt as text; a list of messages becomes its joined contents."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return text_of(value.get("content") or value.get("text") or "")
    return "\n".join(filter(None, map(text_of, value))) if isinstance(value, list | tuple) else ""


def policy_text(completion: Any) -> str:
    """Return what the policy said in a completion; messages of tools and of users are left out."""
    if isinstance(completion, list | tuple):
        own = [item for item in completion if not isinstance(item, Mapping) or _is_policy(item)]
        return text_of(own)
    return text_of(completion)


def _is_policy(message: Mapping[str, Any]) -> bool:
    return message.get("role", "assistant") == "assistant"


def conversation(prompt: Sequence[Any], completion: Any, *, whole: bool = False) -> dict[str, Any]:
    """Return the messages of a chat: of its prompt alone if the response's text says all of the rest.

    With ``whole``, the response is always among them, so that its turns can be counted.
    """
    messages = list(prompt)
    if not isinstance(completion, list | tuple):
        return {"messages": messages}
    plain = len(completion) == 1 and isinstance(completion[0], Mapping) and len(completion[0]) <= 2
    if plain and not whole:
        return {"messages": messages}
    return {"messages": [*messages, *completion], "prompt_messages": len(messages)}


def token_fields(ids: Sequence[int], decode: Any, texts: Callable[..., list[str]]) -> dict[str, Any]:
    """Return token ids, and a function for their texts that the writer's thread calls."""
    row: dict[str, Any] = {"response_token_ids": list(ids)}
    if decode is not None:
        row["response_tokens"] = partial(texts, decode, list(ids))
    return row


def unpadded(ids: Any, mask: Any) -> list[list[int]]:
    """Return the rows of a padded matrix of ids, without padding."""
    pairs = zip(ids.tolist(), mask.tolist(), strict=True)
    return [[token for token, real in zip(row, bits, strict=True) if real] for row, bits in pairs]


def loss_masks(output: Mapping[str, Any], lengths: Sequence[int]) -> list[list[int]]:
    """Return each row's loss mask: 1 for tokens that take part in the loss."""
    mask = output["completion_mask"]
    if "tool_mask" in output:
        mask = mask * output["tool_mask"]
    return [[int(bit) for bit in row[:length]] for row, length in zip(mask.tolist(), lengths, strict=True)]


def importance_ratios(ratios: Any, masks: Sequence[Sequence[int]]) -> list[dict[str, float]]:
    """Return each row's ratio of trainer to engine as the loss used it: capped, or 0 where it was left out.

    Without a cap the ratios follow from the logprobs of both. The trainer has one ratio per row or one per
    token; of the latter, the mean over the tokens in the loss is returned.
    """
    if ratios is None:
        return [{} for _ in masks]
    rows = to_host(ratios).tolist()
    if ratios.shape[1] == 1:
        return [{"importance_sampling_ratio": row[0]} for row in rows]
    used = [
        [ratio for ratio, bit in zip(row, mask, strict=False) if bit]
        for row, mask in zip(rows, masks, strict=True)
    ]
    return [{"importance_sampling_ratio_mean": sum(row) / len(row)} if row else {} for row in used]


def weighted_rewards(scores: Any, weights: Any) -> list[float | None]:
    """Return each row's reward as the trainers log it: the weighted sum of its functions' scores.

    None if no function returned a score.
    """
    factors = weights.tolist() if weights is not None else [1.0] * scores.shape[1]
    return [_sum(row, factors) for row in scores.tolist()]


def _sum(scores: Sequence[float], factors: Sequence[float]) -> float | None:
    products = [
        score * factor for score, factor in zip(scores, factors, strict=True) if not math.isnan(score)
    ]
    return sum(products) if products else None


def scores_by_function(trainer: Any, scores: Any) -> dict[str, float]:
    """Return scores by function name; functions with the same name get their index appended."""
    names = list(trainer.reward_func_names)
    keys = [name if names.count(name) == 1 else f"{name}_{index}" for index, name in enumerate(names)]
    return dict(zip(keys, scores.tolist(), strict=True))


def add_columns(row: dict[str, Any], columns: Mapping[str, Any]) -> None:
    """Add a data set's columns to a row; a name that the row has already becomes ``data/<name>``."""
    for key, value in columns.items():
        if key in _NOT_COLUMNS or not isinstance(value, str | int | float | bool):
            continue
        if key in TRUTHS and "ground_truth" not in row:
            row["ground_truth"] = str(value)
        else:
            row[key if key not in row else f"data/{key}"] = value


Decode = Callable[[Sequence[int]], str]

_UNFINISHED = "\ufffd"


def token_texts(decode: Decode, ids: Sequence[int]) -> list[str]:
    """Return one text per token; a character that spans several tokens goes to the last of them.

    A token's text depends on its neighbours, so each token is decoded together with the one before it. That
    takes two short decodes per token; decoding every prefix would take quadratic time.

    Parameters
    ----------
    decode : callable
        Function from a list of vocabulary ids to their text.
    ids : sequence of int, shape (T,)

    Returns
    -------
    list of str, shape (T,)
        Their concatenation is ``decode(ids)``. If a tokenizer does not allow that, each token is decoded
        alone.
    """
    texts: list[str] = []
    start = done = 0  # start: first token of the last text; done: first token that has no text yet
    before = ""
    for position in range(len(ids)):
        text = decode(ids[start : position + 1])
        if text.endswith(_UNFINISHED) or len(text) < len(before):
            texts.append("")
            continue
        texts.append(text[len(before) :])
        start, done = done, position + 1
        before = decode(ids[start:done])
    whole, joined = decode(ids), "".join(texts)
    if texts and whole.startswith(joined):
        texts[-1] += whole[len(joined) :]
        return texts
    return texts if whole == joined else [decode([token]) for token in ids]


def decoder(tokenizer: Any) -> Decode:
    """Return a function that decodes with a copy of the tokenizer and keeps special tokens.

    A copy, because padding on the training thread changes the tokenizer, and a tokenizer that the writer's
    thread is using refuses changes ("Already borrowed").
    """
    tokenizer_copy = copy.deepcopy(tokenizer)

    def decode(ids: Sequence[int]) -> str:
        text = tokenizer_copy.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text if isinstance(text, str) else "".join(text)

    return decode


def tokenizer_of(processing: Any) -> Any:
    """Return the tokenizer of a processor, or the given tokenizer itself."""
    return getattr(processing, "tokenizer", None) or processing
