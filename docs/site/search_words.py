"""Words of the site's search: English words by stems, Chinese, Japanese and Korean texts by pairs of signs.

Texts without spaces need no dictionary this way: a phrase is found if all its pairs are on a page. A name
such as ``grad_norm`` is found as a whole and by its parts.
"""

from __future__ import annotations

import re

from sphinx.search.en import SearchEnglish

#: Han signs, kana and hangul, as a part of a class of characters in Python and in JavaScript.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUN = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+")
_IS_CJK = re.compile(rf"[{_CJK}]")


def pairs(run: str) -> list[str]:
    """Return the neighbouring pairs of signs of a run; a single sign is itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


class SearchWords(SearchEnglish):
    """Search language that splits texts without spaces into pairs of signs; all else is English."""

    js_splitter_code = """
var splitQuery = (query) => {
  const found = []
  for (const run of query.match(/[CJK]+|[^CJK\\s\\p{P}\\p{S}]+(?:_+[^CJK\\s\\p{P}\\p{S}]+)*/gu) || []) {
    if (!/[CJK]/.test(run) || run.length === 1) found.push(run)
    else for (let i = 0; i + 1 < run.length; i++) found.push(run.slice(i, i + 2))
  }
  return found
}
""".replace("CJK", _CJK)

    def split(self, input: str) -> list[str]:
        """Return the words and pairs of a text."""
        words: list[str] = []
        for run in _RUN.findall(input):
            if _IS_CJK.match(run):
                # A single sign is searched for as well, as in a query of one sign.
                words += pairs(run)
                words += [*run] if len(run) > 1 else []
            else:
                words.append(run)
                words += [part for part in run.split("_") if part] if "_" in run else []
        return words
