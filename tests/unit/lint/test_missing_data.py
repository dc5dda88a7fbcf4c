"""A rule never passes what it cannot check: missing fields, images among tokens, a foreign tokenizer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlpanel.lint.linter import LINT_RULES
from tests.unit.lint.linted_runs import Lines, by_name, linted, recorded, tokenizer_of, with_engine, write
from tests.unit.lint.test_injected_faults import ELSEWHERE, FAULTS

#: Keys of the recorded run by the field that rules name.
KEYS = {
    "group": ("group",),
    "logprobs": ("logprobs",),
    "loss_mask": ("loss_mask",),
    "messages": ("messages",),
    "ref_logprobs": ("ref_logprobs",),
    "response_token_ids": ("response_token_ids",),
    "response_tokens": ("response_tokens",),
    "reward": ("reward", "rewards"),
    "rollout_logprobs": ("rollout_logprobs",),
}


def without(lines: Lines, field: str) -> Lines:
    for line in lines:
        for key in KEYS[field]:
            line.pop(key, None)
    return lines


@pytest.fixture(scope="module")
def whole() -> Lines:
    return with_engine(recorded("grpo_calculator", range(12, 14)))


@pytest.mark.parametrize("field", sorted(KEYS))
def test_missing_field_is_named_and_never_passes(field: str, whole: Lines, tmp_path: Path) -> None:
    lines = without(copy.deepcopy(whole), field)
    results = by_name(linted(write(tmp_path, lines)))
    needing = [rule for rule in LINT_RULES.values() if field in rule.needs]
    assert needing
    for rule in needing:
        result = results[rule.name]
        assert (result.state, result.checked) == ("not checkable", 0), rule.name
        assert field in result.log, rule.name
    assert [rule for rule, result in results.items() if result.state == "failed"] == []


@pytest.mark.parametrize("field", ["loss_mask", "response_tokens", "rollout_logprobs"])
def test_field_that_half_of_the_samples_lack_is_counted(field: str, whole: Lines, tmp_path: Path) -> None:
    lines = copy.deepcopy(whole)
    without(lines[::2], field)
    results = by_name(linted(write(tmp_path, lines)))
    for rule in (rule for rule in LINT_RULES.values() if field in rule.needs and results[rule.name].checked):
        result = results[rule.name]
        assert result.state == "passed", rule.name
        assert 0 < result.checked <= len(lines) // 2 < result.samples, rule.name
        assert field in result.log, rule.name


def ids_only(lines: Lines) -> Lines:
    for line in lines:
        del line["response_tokens"]
    return lines


def test_foreign_tokenizer_is_named_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = recorded("grpo_calculator", range(12, 14))
    rotated = copy.deepcopy(lines)
    names = sorted({token for line in lines for token in line["response_tokens"]})
    other = dict(zip(names, [*names[7:], *names[:7]], strict=True))
    for line in rotated:
        line["response_tokens"] = [other[token] for token in line["response_tokens"]]
    path = tokenizer_of(rotated, tmp_path)
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(path))
    found = linted(write(tmp_path / "run", ids_only(lines)))
    assert "decodes" in found.tokenizer
    assert str(path) in found.tokenizer
    results = by_name(found)
    assert [rule for rule, result in results.items() if result.state == "failed"] == []
    assert results["tokens_are_text"].state == "not checkable"
    assert str(path) in results["tokens_are_text"].log


def test_ids_of_other_samples_are_no_foreign_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ids are moved to the next sample: the tokenizer is right, and the samples fail."""
    lines = recorded("grpo_calculator", range(12, 14))
    path = tokenizer_of(lines, tmp_path)
    ids = [line["response_token_ids"] for line in lines]
    for line, moved in zip(lines, [*ids[5:], *ids[:5]], strict=True):
        line["response_token_ids"] = moved
        for name in ("loss_mask", "logprobs", "ref_logprobs", "entropy"):
            line.pop(name)
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(path))
    found = linted(write(tmp_path / "run", ids_only(lines)))
    assert found.tokenizer == ""
    assert by_name(found)["tokens_are_text"].state == "failed"


#: Placeholders of images in the tokens of public models: Qwen-VL, Gemma 3, LLaVA, Pixtral, InternVL, Molmo.
IMAGES = {
    "qwen": ["<|vision_start|>", *["<|image_pad|>"] * 4, "<|vision_end|>"],
    "gemma": ["<start_of_image>", *["<image_soft_token>"] * 4, "<end_of_image>"],
    "llava": ["<image>"] * 4,
    "pixtral": [*["[IMG]", "[IMG]", "[IMG_BREAK]"] * 2, "[IMG_END]"],
    "internvl": ["<img>", *["<IMG_CONTEXT>"] * 4, "</img>"],
    "molmo": ["<im_start>", *["<im_patch>"] * 3, "<im_col>", "<im_end>"],
}


@pytest.mark.parametrize("family", sorted(IMAGES))
def test_images_among_the_tokens_fail_nothing(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool returns an image: its placeholders are in the ids, outside the loss, and not in the texts."""
    lines = recorded("grpo_calculator", range(14, 16))
    pictures = IMAGES[family]
    numbers = {text: 9000 + at for at, text in enumerate(sorted(set(pictures)))}
    changed = 0
    for line in lines:
        mask = line["loss_mask"]
        if 0 not in mask:
            continue
        at = mask.index(0) + mask[mask.index(0) :].count(0) // 2
        for name, value in line.items():
            if isinstance(value, list) and len(value) == len(mask) and name != "loss_mask":
                fill: list[Any] = [0.0] * len(pictures)
                if name == "response_tokens":
                    fill = list(pictures)
                elif name == "response_token_ids":
                    fill = [numbers[text] for text in pictures]
                line[name] = [*value[:at], *fill, *value[at:]]
        line["loss_mask"] = [*mask[:at], *[0] * len(pictures), *mask[at:]]
        line["response_length"] = len(line["loss_mask"])
        changed += 1
    assert changed > 20
    path = tokenizer_of(lines, tmp_path)
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(path))
    results = by_name(linted(write(tmp_path / "run", lines)))
    assert [(rule, r.examples[0].detail) for rule, r in results.items() if r.state == "failed"] == []
    assert results["tokens_are_text"].checked == len(lines)


@pytest.mark.parametrize("family", sorted(IMAGES))
def test_images_in_the_prompt_fail_nothing(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt's ids have one token for each patch, the logged prompt one placeholder or none."""
    pictures = IMAGES[family]
    words = ["What", " is", " in", " the", " picture", "?"]
    vocabulary = {text: at for at, text in enumerate([*words, *sorted(set(pictures)), "A", " cat"])}
    lines: Lines = [
        {
            "step": 1,
            "prompt": ["".join(words), pictures[0] + "".join(words)][at % 2],
            "prompt_token_ids": [vocabulary[text] for text in [*pictures, *words]],
            "response": "A cat",
            "response_tokens": ["A", " cat"],
            "response_token_ids": [vocabulary["A"], vocabulary[" cat"]],
            "reward": at % 2,
        }
        for at in range(8)
    ]
    known = [{"response_tokens": list(vocabulary), "response_token_ids": list(vocabulary.values())}]
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(tokenizer_of(known, tmp_path)))
    result = by_name(linted(write(tmp_path / "run", lines)))["prompt_ids_are_text"]
    assert (result.state, result.checked) == ("passed", 8)


def conversation(turns: int, step: int, episode: str) -> dict[str, Any]:
    """Return a sample of many turns of tools, with tokens of words and a mask that is right."""
    messages: list[dict[str, str]] = [{"role": "user", "content": f"Look for {episode} in {step}."}]
    tokens, mask = [], []
    for turn in range(turns):
        call, result = f"open page {turn} of {episode}", f"page {turn} says {turn * step}"
        messages += [{"role": "assistant", "content": call}, {"role": "tool", "content": result}]
        own = [*([word + " " for word in call.split()[:-1]]), call.split()[-1], "<|im_end|>"]
        header = ["\n", "<|im_start|>", "tool", "\n"]
        theirs = [*([word + " " for word in result.split()[:-1]]), result.split()[-1]]
        close = ["<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]
        tokens += [*own, *header, *theirs, *close]
        mask += [1] * len(own) + [0] * (len(header) + len(theirs) + len(close))
    messages.append({"role": "assistant", "content": f"It is {step}."})
    tokens += ["It ", "is ", f"{step}.", "<|im_end|>"]
    mask += [1] * 4
    return {
        "step": step,
        "episode": episode,
        "prompt": messages[0]["content"],
        "prompt_messages": 1,
        "messages": messages,
        "response_tokens": tokens,
        "loss_mask": mask,
        "reward": 1.0,
    }


def test_two_hundred_turns_are_checked_to_the_last(tmp_path: Path) -> None:
    lines = [conversation(200, step, f"e{step}-{at}") for step in (1, 2) for at in range(4)]
    results = by_name(linted(write(tmp_path / "healthy", lines)))
    assert [rule for rule, result in results.items() if result.state == "failed"] == []
    assert results["context_untrained"].checked == results["policy_trained"].checked == len(lines)
    # The last result of a tool is in the loss of one sample.
    last = len(lines[5]["loss_mask"]) - 1 - lines[5]["loss_mask"][::-1].index(0)
    lines[5]["loss_mask"][last - 8 : last - 4] = [1] * 4
    result = by_name(linted(write(tmp_path / "late", lines)))["context_untrained"]
    assert (result.state, result.failed, [each.line for each in result.examples]) == ("failed", 1, [6])


def test_two_episodes_in_one_file_are_not_joined(tmp_path: Path) -> None:
    """Turns of two episodes take turns in the file; one of the episodes was tokenised again."""
    lines = []
    for turn in range(3):
        for episode, again in (("a", False), ("b", True)):
            before = [ord(letter) for letter in f"{episode}: " + "go on. " * turn]
            prompt = f"{episode}: " + "go on. " * turn
            ids = [*before[:-1], 7] if again and turn == 2 else before
            lines.append(
                {
                    "step": 1,
                    "episode": episode,
                    "prompt": prompt,
                    "prompt_token_ids": ids,
                    "response": "go on. ",
                    "response_token_ids": [ord(letter) for letter in "go on. "],
                    "reward": 0.0,
                }
            )
    result = by_name(linted(write(tmp_path, lines)))["turn_is_prefix"]
    assert (result.state, result.failed) == ("failed", 1)
    assert result.examples[0].line in (4, 6)


#: Keys of the recorded runs that give a field, themselves or because it is taken from them.
SOURCES = {
    "advantage": ("advantage",),
    "advantages": ("advantages",),
    "episode": ("episode",),
    "finish_reason": ("finish_reason",),
    "ground_truth": ("ground_truth",),
    "group": ("group", "group_id"),
    "messages": ("messages", "prompt_messages"),
    "policy_version": ("policy_version",),
    "prompt": ("prompt", "messages", "prompt_messages"),
    "prompt_token_ids": ("prompt_token_ids",),
    "response": ("response", "response_tokens", "messages", "prompt_messages"),
    "reward": ("reward", "rewards"),
    "truncated": ("truncated",),
}
NEEDS = [
    (rule.name, need)
    for rule in LINT_RULES.values()
    for need in rule.needs
    if rule.name in FAULTS and rule.name not in ELSEWHERE
]


#: Samples without a field, as good as a whole run: the reason is the field, and the log names it.
FEW = 40


@cache
def few(base: Callable[[], Lines]) -> Lines:
    return base()[:FEW]


@pytest.mark.parametrize(("rule", "need"), NEEDS)
def test_rule_without_a_field_that_it_needs_is_not_checkable(rule: str, need: str, tmp_path: Path) -> None:
    base, _ = FAULTS[rule]
    lines = copy.deepcopy(few(base))
    for line in lines:
        for field in need.split("|"):
            for key in SOURCES.get(field, (field,)):
                line.pop(key, None)
    result = by_name(linted(write(tmp_path, lines), [rule]))[rule]
    assert (result.state, result.checked) == ("not checkable", 0)
    assert any(field in result.log for field in need.split("|")), result.log


def ids_of_turns(kept: int) -> Lines:
    """Return pairs of turns with ids only; of all but the first ones, the ids do not go on."""
    return [
        {
            "step": 1,
            "episode": f"e{pair}",
            "prompt_token_ids": [5, 6] if turn == 0 else [5, 6, 7, 8, 9] if pair < kept else [5, 6, 78, 9],
            "response_token_ids": [7, 8],
            "reward": 0.0,
        }
        for pair in range(4)
        for turn in range(2)
    ]


@pytest.mark.parametrize("kept", [0, 3, 4])
def test_turns_whose_ids_do_not_go_on_never_pass_without_their_text(kept: int, tmp_path: Path) -> None:
    """Tokenised again, cut reasoning and a compaction all look so: only the prompt shows which it is."""
    results = by_name(linted(write(tmp_path, ids_of_turns(kept))))
    for rule in ("turn_is_prefix", "reasoning_kept", "turn_kept"):
        result = results[rule]
        assert result.state == ("passed" if kept == 4 else "not checkable"), rule
        assert kept == 4 or "prompt" in result.log
    unclear = f"{4 - kept} of 4 samples" if kept < 4 else ""
    assert results["turn_is_prefix"].remark == unclear


#: The vocabulary of the tests on ids: two words, the begin of a text, and headers of a chat template.
WORDS = ["<|begin_of_text|>", "<|im_start|>", "user\n", "<|im_end|>\n", "Hi", "!", "Hi!", "assistant\n"]


def of_words(tokens: list[str], **more: Any) -> dict[str, Any]:
    ids = [WORDS.index(token) for token in tokens]
    return {"step": 1, "prompt_token_ids": ids, "response": "Hi", "response_token_ids": [4], **more}


PLAIN = [
    "<|begin_of_text|>",
    "<|im_start|>",
    "user\n",
    "Hi",
    "!",
    "<|im_end|>\n",
    "<|im_start|>",
    "assistant\n",
]


@pytest.mark.parametrize(
    ("rule", "tokens"),
    [
        ("one_bos", ["<|begin_of_text|>", *PLAIN]),
        ("template_once", ["<|begin_of_text|>", "<|im_start|>", "user\n", *PLAIN[1:]]),
        ("template_applied", ["Hi", "!"]),
    ],
)
def test_templates_are_read_from_the_ids_where_the_text_leaves_them_out(
    rule: str, tokens: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [of_words(tokens if at == 3 else PLAIN, prompt="Hi!", reward=0.0) for at in range(8)]
    assert by_name(linted(write(tmp_path / "run", lines), [rule]))[rule].failed == 0
    known = [{"response_tokens": WORDS, "response_token_ids": list(range(len(WORDS)))}]
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(tokenizer_of(known, tmp_path)))
    result = by_name(linted(write(tmp_path / "run", lines), [rule]))[rule]
    assert (result.state, [each.line for each in result.examples]) == ("failed", [4])


def test_turns_of_ids_are_read_by_the_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of the run is in the local cache, so that no text is filled in when the lines are read."""
    lines: Lines = []
    for pair, again in enumerate(("Hi!", "Hi", "Hi")):
        rest = [] if again == "Hi!" else ["!"]
        lines += [
            of_words(["Hi"], episode=f"e{pair}", reward=0.0),
            of_words(["Hi", again, *rest], episode=f"e{pair}", reward=0.0),
        ]
        for line in lines[-2:]:
            del line["response"]
        lines[-2]["response_token_ids"] = [4, 5]
    known = [{"response_tokens": WORDS, "response_token_ids": list(range(len(WORDS)))}]
    cached = tmp_path / "hub" / "models--some--model" / "snapshots" / "abc"
    cached.mkdir(parents=True)
    tokenizer_of(known, cached)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    results = by_name(linted(write(tmp_path / "run", lines, {"model": "some/model"})))
    result = results["turn_is_prefix"]
    assert (result.state, [each.line for each in result.examples]) == ("failed", [2])
    assert results["turn_kept"].state == results["reasoning_kept"].state == "passed"


@pytest.mark.parametrize(("named", "state"), [(None, "not checkable"), (8, "failed"), (4, "passed")])
def test_halves_of_groups_pass_only_if_their_size_is_named(
    named: int | None, state: str, tmp_path: Path
) -> None:
    """Each prompt has two groups of four: of eight samples, or drawn twice."""
    lines = recorded("grpo_couplets", range(1, 4))
    for at, line in enumerate(lines):
        line["group_id"] += f"-{at % 2}"
    run = {"num_generations": named} if named else None
    result = by_name(linted(write(tmp_path, lines, run), ["one_group"]))["one_group"]
    assert (result.state, "num_generations" in result.log) == (state, named is None)


@pytest.mark.parametrize(("last", "state"), [(None, "not checkable"), ("\n", "passed")])
def test_a_mask_without_the_end_token_never_passes(last: str | None, state: str, tmp_path: Path) -> None:
    """A mask that is one token early leaves out the end token; a line break after it is left out rightly."""
    lines = recorded("grpo_couplets", range(1, 3))
    for line in lines:
        line["loss_mask"] = [1] * (len(line["logprobs"]) - 1) + [0]
        line["response_tokens"][-1] = last or line["response_tokens"][-1]
    result = by_name(linted(write(tmp_path, lines), ["mask_in_place"]))["mask_in_place"]
    assert (result.state, "end token" in result.log) == (state, last is None)


def test_a_mask_beside_a_single_end_token_does_not_break_the_rule(tmp_path: Path) -> None:
    lines = recorded("grpo_couplets", range(1, 3))
    for line in lines:
        line["loss_mask"] = [1] * 9 + [0]
        line["response_tokens"] = ["<|im_end|>"]
    result = by_name(linted(write(tmp_path, lines), ["mask_in_place"]))["mask_in_place"]
    assert "the rule failed" not in result.log
