"""Reads what Harbor's verifier wrote into the folder ``verifier`` of a trial, or of a step of it.

Harbor (0.26.0, ``models/trial/paths.py``) writes ``test-stdout.txt`` and ``test-stderr.txt``; the tests write
``reward.txt`` or ``reward.json``, and often ``ctrf.json``, a report in the Common Test Report Format
(https://ctrf.io). Any other text beside them is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files.file_access import AnyPath, path_of, read_small, scan
from rlpanel.sources.records.json_parser import parse, to_python

FOLDER = "verifier"
#: Endings of names that are read, files of a folder, bytes of a file that are read at all, and characters of
#: its text that are kept at each end.
_ENDINGS = (".txt", ".json", ".log", ".xml", ".md")
_MAX_FILES, _MAX_BYTES, _KEPT = 40, 32 << 20, 100_000
#: Order in which files are shown; others follow by name.
_FIRST = ("ctrf.json", "test-stdout.txt", "test-stderr.txt", "reward.json", "reward.txt")
_MARKS = {"passed": "✓", "failed": "✗", "skipped": "–", "pending": "–"}


def output_names(trial: str) -> list[str]:
    """Return the names of the verifier's files below a trial's folder, in the order of the screen."""
    try:
        found = [
            entry.name
            for entry in scan(f"{trial}/{FOLDER}")
            if entry.name.endswith(_ENDINGS) and entry.is_file(follow_symlinks=False)
        ]
    except OSError:
        return []
    places = {name: at for at, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))[:_MAX_FILES]


def verifier_outputs(trial: str) -> dict[str, str]:
    """Return the texts of the verifier's files by name; of one that cannot be read, the reason.

    Parameters
    ----------
    trial : str
        Path of the folder of the trial, or of one of its steps. A link is not followed.
    """
    texts: dict[str, str] = {}
    for name in output_names(trial):
        path: AnyPath = path_of(f"{trial}/{FOLDER}") / name
        try:
            data = read_small(path, _MAX_BYTES).data
        except OSError as error:
            texts[name] = f"[{name} cannot be read: {str(error)[:120]}]"
            continue
        text = data.decode("utf-8", "replace")
        texts[name] = ends_of(_report(data) if name == "ctrf.json" else text) or "[empty]"
    return texts


def ends_of(text: str) -> str:
    """Return a text, or the ends of a long one with the number of characters between them."""
    if len(text) <= 2 * _KEPT:
        return text
    return f"{text[:_KEPT]}\n[… {len(text) - 2 * _KEPT:,} characters left out …]\n{text[-_KEPT:]}"


def _report(data: bytes) -> str:
    """Return a report of tests as one line per test, failed ones first; the text itself if it is not one."""
    try:
        results = to_python(parse(data.strip()).get("results"))
        return "\n".join(_lines(results)) if isinstance(results, Mapping) else data.decode("utf-8", "replace")
    except LineError:
        return data.decode("utf-8", "replace")


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    summary = results.get("summary")
    if isinstance(summary, Mapping):
        counts = (
            f"{summary[key]} {key}" for key in ("passed", "failed", "skipped", "pending") if summary.get(key)
        )
        yield f"{summary.get('tests', '?')} tests: {', '.join(counts) or 'none ran'}"
    tests = [each for each in results.get("tests") or () if isinstance(each, Mapping)]
    for test in sorted(tests, key=lambda each: each.get("status") != "failed"):
        duration = test.get("duration")
        seconds = f"  {duration / 1000:,.3g} s" if isinstance(duration, int | float) else ""
        yield f"{_MARKS.get(str(test.get('status')), '?')} {test.get('name')}{seconds}"
        for key in ("message", "trace"):
            if isinstance(test.get(key), str) and test[key]:
                yield "    " + test[key].replace("\n", "\n    ")
