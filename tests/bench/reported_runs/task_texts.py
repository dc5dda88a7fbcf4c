"""Texts of the tasks: questions with their answers, worked solutions, and the results of tools."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np


def _words(text: str) -> list[str]:
    return text.split()


_NAMES = _words("Ada Ben Chen Dina Emre Fatou Goran Hana Ines Jonas Kofi Lena Mika Noor Olga Pavel")
_THINGS = _words(
    "apples books coins desks eggs flowers games hats jars keys lamps maps nails pens ropes shirts"
)
_PLACES = _words("market school garden station library harbour museum bakery factory theatre")
_JOINTS = (
    "First, {a} and {b} belong together.",
    "We add what was said about the {thing}.",
    "So the number so far is {c}.",
    "Let me write the amounts down: {a}, {b}, {c}.",
    "From {a} we take {b}, which leaves {c}.",
    "Each of the {a} counts {b} times.",
    "The {place} does not change the number.",
    "Next, look at the remaining {thing}.",
    "That gives {c} in this step.",
    "Multiply {a} by {b} to see the total.",
    "Compare this with the {b} from before.",
    "The question asks for the {thing} only.",
    "Half of {a} would be too few, so we go on.",
    "Check: {c} is larger than {b}.",
    "Now the last sentence of the problem matters.",
    "Put the {a} {thing} aside for now.",
    "If {name} has {a}, then {b} are left over.",
    "We can ignore the {place} here.",
    "Therefore the sum must be near {c}.",
    "Going back, {a} minus {b} is what we need.",
)
_ENDINGS = (
    "The answer is \\boxed{{{answer}}}.",
    "So we get \\boxed{{{answer}}}.",
    "Thus \\boxed{{{answer}}}.",
)
_TOPICS = _words("river treaty comet bridge opera vaccine glacier railway alphabet violin volcano parliament")


@dataclass
class Prompt:
    """A question: its text, its true answer, labels, and how hard it is for the policy."""

    number: int
    text: str
    truth: str
    labels: dict[str, str]
    hardness: float
    words: dict[str, object] = field(default_factory=dict)


def math_prompt(number: int, source: str, form: str, draw: np.random.Generator) -> Prompt:
    """Return a word problem. Its answer has one of the forms integer, fraction, choice and percent."""
    name, other = draw.choice(_NAMES, 2, replace=False)
    thing, place = str(draw.choice(_THINGS)), str(draw.choice(_PLACES))
    a, b = int(draw.integers(11, 99)), int(draw.integers(2, 10))
    words: dict[str, object] = {"name": name, "thing": thing, "place": place}
    question = {
        "integer": f"How many {thing} do they have together?",
        "fraction": f"Write the share of the {thing} that {name} keeps as a fraction.",
        "percent": f"What percent of the {thing} are at the {place}?",
        "choice": f"Which option counts the {thing}? (A) {a} (B) {a + b} (C) {a * b} (D) {a - b}",
    }[form]
    text = (
        f"{name} brings {a} {thing} to the {place}, "
        f"and {other} brings {b} more than that on day {number % 97}. "
        f"Later {b} of them are given away. {question}"
    )
    truth = {
        "integer": str(2 * a * b + number % 7),
        "fraction": f"{a}/{a + b + 1}",
        "percent": f"{a}%",
        "choice": "ABCD"[number % 4],
    }[form]
    return Prompt(number, text, truth, {"data_source": source, "form": form}, float(draw.normal()), words)


def search_prompt(number: int, draw: np.random.Generator) -> Prompt:
    """Return a question that needs a search tool."""
    topic, place = str(draw.choice(_TOPICS)), str(draw.choice(_PLACES))
    name = str(draw.choice(_NAMES))
    text = f"In which year did {name} {number} open the {topic} {place}?"
    truth = str(1500 + (number * 37) % 500)
    words: dict[str, object] = {"topic": topic, "place": place, "name": name}
    return Prompt(number, text, truth, {"data_source": "search"}, float(draw.normal()), words)


def wrong_answer(prompt: Prompt, draw: np.random.Generator) -> str:
    """Return an answer of the same form that is not the truth."""
    if prompt.truth in "ABCD":
        return str(draw.choice([each for each in "ABCD" if each != prompt.truth]))
    shift = int(draw.integers(1, 9))
    return re.sub(r"\d+", lambda found: str(int(found[0]) + shift), prompt.truth, count=1)


def solution(prompt: Prompt, sentences: int, answer: str, draw: np.random.Generator) -> list[str]:
    """Return the sentences of a worked solution; the last one states the answer."""
    texts = []
    for _ in range(sentences):
        a, b = int(draw.integers(2, 99)), int(draw.integers(2, 30))
        joint = str(_JOINTS[int(draw.integers(len(_JOINTS)))])
        texts.append(joint.format(a=a, b=b, c=a + b, **prompt.words))
    ending = str(_ENDINGS[int(draw.integers(len(_ENDINGS)))])
    return [*texts, ending.format(answer=answer)]


def search_result(query: str, number: int, draw: np.random.Generator) -> str:
    """Return a page of a search engine about a query."""
    lines = []
    for _ in range(int(draw.integers(2, 5))):
        topic, place, year = draw.choice(_TOPICS), draw.choice(_PLACES), int(draw.integers(1500, 2000))
        lines.append(
            f"The {topic} near the {place} is mentioned in {year}, entry {int(draw.integers(10**5))}."
        )
    return f"Results for {query} ({number}):\n" + "\n".join(lines)


def tokens_of(text: str) -> list[str]:
    """Return a text's tokens: words with the white space before them, and signs on their own."""
    return re.findall(r"\s*(?:\w+|[^\w\s])|\s+$", text)
