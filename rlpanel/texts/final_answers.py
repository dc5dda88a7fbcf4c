r"""The answer that a response ends with, read by one of several rules, and compared with the ground truth.

This is our reading of the texts. It is never the reward of a trainer, whose function may read otherwise. Each
rule follows a convention that trainers and evaluations share:

* *boxed*: the last ``\boxed{…}`` or ``\fbox{…}``, as for MATH (Hendrycks et al. 2021) and in verl's scores.
* *tag*: the last ``<answer>…</answer>``, closed or not, as in the template of DeepSeek-R1 (2025).
* *hash*: the rest of the line after the last ``####``, as in the solutions of GSM8K (Cobbe et al. 2021).
* *choice*: the last letter named as the answer, as "the answer is (B)" in MMLU-Pro (Wang et al. 2024).
* *number*: the last number, as *flexible-extract* of lm-evaluation-harness and *flexible* of verl for GSM8K.
* *line*: the last line that is not empty; without a source, for short answers in words.

Two answers are equal if they are after these changes: wrapping ``$``, quotes, brackets of LaTeX and the full
stop go; case, spaces, and spacing commands of LaTeX do not count; ``\text{…}`` is its content. Numbers are
compared by value: ``1,000.0`` equals ``1000``, and ``\frac{1}{2}`` equals ``0.5``. Signs of currency and
percent do not count, and a unit does only if both have one. Answers that are not equal *differ* if both are
numbers, or plain words. Otherwise they are *not comparable*: ``x+1`` may equal ``1+x``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

#: Most characters at the end of a response that are read, and of an answer.
TAIL, MAX_ANSWER = 20_000, 300
#: Values of a comparison: the answer equals the ground truth, differs, or cannot be compared with it.
EQUAL, DIFFERENT, UNCLEAR = "yes", "no", "unclear"
#: Share of the best rule's equal answers from which a more specific rule is preferred.
_NEARLY = 0.9
#: Name of the choice to use the rule that fits a run best.
AUTO = "auto"

_NUMBER = re.compile(
    r"(?:(?<![\w.)\]}])[-+−])?(?<![A-Za-z_\d.])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?=\.\d))(?:\.\d+)?"
    r"(?:[eE][-+]?\d+|/\d+(?![\d.]))?"
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_HASH = re.compile(r"####([^\n]*)")
#: "A" and "I" before a further word are words.
_LETTER = r"((?![AI] \w)[A-J])(?![\w'])"
_CHOICE = re.compile(
    rf"(?i:answer|choice|option)(?i: is)?[:= *(\[]{{0,6}}{_LETTER}|[(\[]([A-J])[)\]]"
    r"|\A\W{0,9}([A-J])\W{0,9}\Z"
)
#: What a tool or the environment wrote, in texts that rlpanel makes of messages and in chat templates.
_RESULT = re.compile(
    r"^(?:\[assistant\] )?\[(?:tool|user|call)[^\]\n]*\] .*?(?=^\[assistant\]|\Z)"
    r"|<tool_response>.*?(?:</tool_response>|\Z)",
    re.DOTALL | re.MULTILINE,
)
_ROLE = re.compile(r"^\[assistant\] ?", re.MULTILINE)
_SPECIAL = re.compile(r"(?:<[|｜][^|｜<>\n]{1,40}[|｜]>|</?s>)\Z")


def _boxed(text: str) -> str | None:
    """Return what stands in the last box that is closed."""
    end = len(text)
    for _ in range(_BOXES):
        end = max(text.rfind(r"\boxed", 0, end), text.rfind(r"\fbox", 0, end))
        match = _BOX.match(text, end) if end >= 0 else None
        depth = 1
        for at in range(match.end(), min(len(text), match.end() + MAX_ANSWER)) if match else ():
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if not depth and match:
                return text[match.end() : at]
    return None


def _last(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    """Return a rule that takes the last match: its group, or all of it."""

    def read(text: str) -> str | None:
        for size in (_NEAR, len(text)):  # most answers stand near the end
            start = max(0, len(text) - size)
            found = None
            for match in pattern.finditer(text, start):
                if match.start() >= start + _CUT or not start:
                    found = match
            if found is not None:
                return next(filter(None, found.groups()), "") if pattern.groups else found[0]
        return None

    return read


#: Characters at the end that are searched first, and at their beginning, where a match may be cut.
_NEAR, _CUT = 400, 40
#: Most boxes that are tried: the last ones may be open.
_BOXES = 20


def _line(text: str) -> str | None:
    return next((line for line in reversed(text.splitlines()) if line.strip()), None)


@dataclass(frozen=True)
class AnswerRule:
    """A way to read the answer of a response.

    Attributes
    ----------
    key : str
        Name in settings, and in the heads of columns.
    read : callable
        Returns the answer of a text, or None.
    """

    key: str
    read: Callable[[str], str | None] = field(repr=False)


#: The rules by key, the most specific first.
RULES: Mapping[str, AnswerRule] = {
    rule.key: rule
    for rule in (
        AnswerRule("boxed", _boxed),
        AnswerRule("tag", _last(_TAG)),
        AnswerRule("hash", _last(_HASH)),
        AnswerRule("choice", _last(_CHOICE)),
        AnswerRule("number", _last(_NUMBER)),
        AnswerRule("line", _line),
    )
}


def answer_of(response: str, rule: AnswerRule) -> str | None:
    """Return the answer that a response ends with, as it is written there; None if the rule finds none.

    Thoughts up to the last ``</think>``, results of tools, and special tokens at the end are left out.
    """
    tail = response[-TAIL:].rpartition("</think>")[2]
    if "[assistant]" in tail or "[tool" in tail or "<tool_response>" in tail:
        tail = _ROLE.sub("", _RESULT.sub("\n", tail))
    tail = tail.rstrip()
    while match := _SPECIAL.search(tail[-_CUT - 4 :]):
        tail = tail[: len(tail) - len(match[0])].rstrip()
    answer = rule.read(tail)
    return answer.strip()[:MAX_ANSWER] or None if answer is not None else None


def match_of(answer: str | None, truth: str | None) -> str | None:
    """Return whether an answer equals the ground truth: one of `EQUAL`, `DIFFERENT` and `UNCLEAR`.

    None without a ground truth. A truth that is a list of texts as JSON is equal to each of them; one with a
    box, an answer tag or ``####`` is read by that rule.
    """
    if truth is None or not truth.strip():
        return None
    if answer is None:
        return UNCLEAR
    if answer == truth:
        return EQUAL
    found = {_compare(answer, one) for one in _truths(truth)}
    return next((value for value in (EQUAL, UNCLEAR) if value in found), DIFFERENT)


def _truths(truth: str) -> Sequence[str]:
    """Return the answers that a ground truth accepts."""
    truth = truth.strip()
    if truth[0] == "[" and len(truth) <= TAIL:
        try:
            listed = json.loads(truth)
        except (ValueError, RecursionError):
            listed = None
        if listed and all(isinstance(one, str | int | float) for one in listed):
            return [str(one) for one in listed]
    read = (RULES[key].read(truth[-TAIL:]) for key in ("hash", "boxed", "tag"))
    return [next((found for found in read if found), truth)]


def _compare(answer: str, truth: str) -> str:
    if len(truth) > MAX_ANSWER:
        return EQUAL if answer == truth else UNCLEAR
    left, right = _plain(answer), _plain(truth)
    if left == right:
        return EQUAL
    first, second = _quantity(left), _quantity(right)
    if first and second:
        if first[1] and second[1] and first[1] != second[1]:
            return UNCLEAR  # 1 km and 1000 m
        return EQUAL if first[0] == second[0] else DIFFERENT
    letters = _letter(left), _letter(right)
    if all(letters):
        return EQUAL if letters[0] == letters[1] else DIFFERENT
    in_words = not any(len(text) >= MAX_ANSWER or _FORMULA.search(text) for text in (left, right))
    return DIFFERENT if in_words and left not in right and right not in left else UNCLEAR


#: What a text in words does not have: signs of formulas, lists and code.
_FORMULA = re.compile(r"[\\^_=+*/<>{}\[\]()|,;\d]")
_WRAPPED = re.compile(
    r"\A(?:\$+(.*?)\$+|\\\((.*)\\\)|\\\[(.*)\\\]|\*\*(.*)\*\*|[\"'`](.*)[\"'`])\Z", re.DOTALL
)
_SPACING = re.compile(r"\\(?:left|right|displaystyle|quad|qquad|[,;:! ])(?![A-Za-z])|[~\s]+")
_INSIDE = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|boxed|fbox)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\frac\{(-?\d+)\}\{(\d+)\}|\\frac(\d)(\d)")
#: A unit is a word, or one of the usual short ones: 2x and 2m are terms.
_UNIT = r"(?!sin|cos|tan|log|exp|sqrt|mod)[a-z]{3,}|[cmk]m|kg|mg|ml|hz|°[cf]?"
_QUANTITY = re.compile(
    rf"([-+]?(?:\d+(?:,\d{{3}})*|(?=\.\d))(?:\.\d+)?(?:e[-+]?\d{{1,3}})?)(?:/(\d+))?((?:{_UNIT})?)(?:\^?\{{?([23])\}}?)?"
)


def _plain(text: str) -> str:
    """Return a text without what does not count in a comparison."""
    text = unicodedata.normalize("NFKC", text.strip()).replace("−", "-").rstrip(".。")
    while match := _WRAPPED.match(text):
        text = next(filter(None, match.groups()), "").strip()
    text = _INSIDE.sub(r"\1", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = _FRACTION.sub(lambda m: f"{m[1] or m[3]}/{m[2] or m[4]}", text)
    text = re.sub(r"\^\{?\\circ\}?|\\degree", "°", text)
    return re.sub(r"\\?[$%€£]", "", _SPACING.sub("", text)).lower()


def _quantity(text: str) -> tuple[Fraction, str] | None:
    """Return a number and its unit; None for anything else."""
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_ANSWER else None
    if match is None or (match[4] and not match[3]) or (match[2] and not int(match[2])):
        return None
    return Fraction(match[1].replace(",", "")) / int(match[2] or 1), f"{match[3]}{match[4] or ''}"


def _letter(text: str) -> str:
    match = re.fullmatch(r"[(\[]?([a-j])[)\]]?", text)
    return match[1] if match else ""


@dataclass(frozen=True)
class ChosenRule:
    """The rule for a run's answers, and how well each rule fits.

    Attributes
    ----------
    rule : AnswerRule
    equal : mapping of str to int
        Key of each rule that was tried → samples whose answer equals the ground truth; empty if the reader
        set the rule.
    samples : int
        Number of samples that were tried.
    """

    rule: AnswerRule
    equal: Mapping[str, int] = field(default_factory=dict)
    samples: int = 0


def choose_rule(texts: Iterable[tuple[str, str]]) -> ChosenRule | None:
    """Return the rule whose answers equal the ground truths most often; None without ground truths.

    Of rules that do so nearly as often, the first of `RULES` is chosen: the last number of a text without a
    box may be right by chance. If none ever does, the rule with most answers that can be compared is chosen;
    not the last line, which every text has, nor the last number unless most ground truths are numbers.

    Parameters
    ----------
    texts : iterable of (str, str)
        Responses and their ground truths.
    """
    pairs = [(response, truth) for response, truth in texts if truth.strip()]
    if not pairs:
        return None
    found = {
        key: [match_of(answer_of(response, rule), truth) for response, truth in pairs]
        for key, rule in RULES.items()
    }
    equal = {key: values.count(EQUAL) for key, values in found.items()}
    most = max(equal.values())
    if most:
        best = next(key for key in RULES if equal[key] >= _NEARLY * most)
    else:
        numbers = sum(_quantity(_plain(truth)) is not None for _, truth in pairs)
        without = {"line"} if 2 * numbers > len(pairs) else {"line", "number"}
        best = max((key for key in RULES if key not in without), key=lambda key: found[key].count(DIFFERENT))
        if not found[best].count(DIFFERENT):
            return None
    return ChosenRule(RULES[best], equal, len(pairs))
