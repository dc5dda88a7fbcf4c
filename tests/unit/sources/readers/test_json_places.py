"""Places of values in JSON documents, compared with Python's parser on documents made at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from rlpanel.sources.readers.json_places import Outline, find_items, find_values, split_cells

_TEXTS = ['a"b\\', "x,y]}[{", '\\\\"', "", " \n\t", "é🙂", "\\", '"']


def value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.random()
    if depth > 3 or kind < 0.4:
        return random_.choice([1, -2.5e9, None, True, *_TEXTS])
    if kind < 0.7:
        return [value(random_, depth + 1) for _ in range(random_.randint(0, 4))]
    return {random_.choice(_TEXTS): value(random_, depth + 1) for _ in range(random_.randint(0, 3))}


def blocks(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize("seed", range(100))
def test_items_and_values_are_found_wherever_blocks_begin(seed: int) -> None:
    random_ = random.Random(seed)
    items = [value(random_) for _ in range(random_.randint(0, 6))]
    indent, ascii_only = random_.choice([None, 1]), random_.random() < 0.5
    content = json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode() + b', {"more": [1]}'
    size = random_.randint(1, 9)
    places = find_items(blocks(content[1:], size), 1)
    found = [content[start:end].strip() for start, end in places]
    assert places.is_whole
    assert [json.loads(item) for item in found if item] == items
    several = [item for item in items if isinstance(item, (list, dict))]
    content = "\n".join(json.dumps(item, indent=2) for item in several).encode()
    places = find_values(blocks(content, size))
    found = [content[start:end].strip() for start, end in places]
    assert places.is_whole
    assert [json.loads(item) for item in found if item] == several


@pytest.mark.parametrize("cut", [1, 9, 20, 21, 22, 30])
def test_a_list_that_is_cut_off_has_the_items_before(cut: int) -> None:
    content = b'[{"a": "x, y"}, {"b": [1, 2]}, {"c": "]"}]'[: -cut or None]
    places = find_items([content[1:]], 1)
    found = [content[start:end].strip() for start, end in places]
    assert not places.is_whole
    assert found == [b'{"a": "x, y"}', b'{"b": [1, 2]}'][: content.count(b", {")]


def test_the_lists_of_a_document_are_found_with_their_keys() -> None:
    document = {
        "config": {"layers": [1, 2], "deep": {"er": {"still": {"no": [1]}}}},
        'odd "key", [': [{"p": [{}]}, {"p": {}}],
        "data": {"rows": [[1, "a"]], "empty": []},
    }
    for indent in (None, 2):
        found = Outline(json.dumps(document, indent=indent).encode()).lists()
        assert [(each.keys, [json.loads(item) for item in each.items], each.is_whole) for each in found] == [
            (("config", "layers"), [1, 2], True),
            (('odd "key", [',), [{"p": [{}]}, {"p": {}}], True),
            (("data", "rows"), [[1, "a"]], True),
            (("data", "empty"), [], True),
        ]


def test_a_list_that_goes_on_has_its_first_items() -> None:
    (found,) = Outline(b'{"model": "m", "samples": [{"a": 1}, {"a": 2}, {"a": ').lists()
    assert (found.keys, found.items, found.is_whole) == (("samples",), [b'{"a": 1}', b'{"a": 2}'], False)


def test_a_hundred_thousand_brackets_are_no_effort() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    places = find_items([b"1, ", deep, b", 2]"], 0)
    assert len(places.ends) == 3
    assert [each.keys for each in Outline(b'{"a": ' + deep + b"}").lists()] == [("a",)]


def test_the_cells_of_a_row_stay_as_they_are_written() -> None:
    assert split_cells(b' [1.50, "a, b", [1, {"c": 2}], null] ') == [
        b"1.50", b'"a, b"', b'[1, {"c": 2}]', b"null",
    ]  # fmt: skip
    assert split_cells(b'{"a": 1}') == []
