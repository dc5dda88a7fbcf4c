"""The token vocabulary of synthetic responses: words of several scripts, code, numbers and special tokens."""

from __future__ import annotations

import numpy as np

_ENGLISH = (
    "the of and to in is we that it for with then so this are be as from by which value number sum answer "
    "first second third next step check because each both total left right side equation multiply divide "
    "add subtract result equal greater smaller given find compute let suppose there remain half double "
    "price apples train speed hours minutes distance river stone mountain garden house window bright slow "
    "quiet large small simple clear wrong correct therefore hence finally now note again compare between "
    "under over before after during while until when where what how many much more less than only also "
    "still never always often word letter line point angle circle square triangle area length width height "
    "volume weight money coin paper book school teacher student friend family city street market morning "
    "evening winter summer water fire earth wind light shadow color green blue red white black gold silver "
    "write read speak listen think know learn teach walk run jump carry bring take give make build break "
    "open close start stop begin end keep lose win pay buy sell send receive follow lead turn return move"
)
_CHINESE = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后"
    "多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合"
    "还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条"
)
_RUSSIAN = (
    "и в не на я быть он с что а по это она этот к но они мы весь который из у свой вы так за для от год же "
    "ты один время рука если другой два знать как день жизнь говорить два число ответ сумма шаг слово дом"
    " вода"
)
_CODE = (
    "def return for in range ( ) : = == != < > + - * / [ ] { } if else elif while not and or None True False "
    "x y n i j total items value result append len print sum max min sorted list dict set str int float"
)

SPECIAL = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<pad>",
    "</s>",
    "<|eot_id|>",
    "user",
    "assistant",
    "\n",
    "�",
    "bri�",
    "!",
)

_parts: list[tuple[str, list[str]]] = [
    ("en", [f" {word}" for word in dict.fromkeys(_ENGLISH.split())]),
    ("zh", list(dict.fromkeys(_CHINESE))),
    ("ru", [f" {word}" for word in dict.fromkeys(_RUSSIAN.split())]),
    ("code", [f" {word}" for word in dict.fromkeys(_CODE.split())] + ["\n    "]),
    ("numbers", [str(number) for number in range(1000)]),
    ("choice", ["A", "B", "C", "D"]),
    ("special", list(SPECIAL)),
]

#: All tokens; an id is a position.
VOCABULARY = np.array([token for _, tokens in _parts for token in tokens], dtype=object)
#: First id of each script.
START: dict[str, int] = {}
#: Number of tokens of each script.
SIZE: dict[str, int] = {name: len(tokens) for name, tokens in _parts}
for _name, _tokens in _parts:
    START[_name] = sum(SIZE[name] for name in START)


def special(token: str) -> int:
    """Return the id of a special token."""
    return START["special"] + SPECIAL.index(token)


def text(ids: np.ndarray) -> str:
    """Return the text of some tokens."""
    return "".join(VOCABULARY[ids])
