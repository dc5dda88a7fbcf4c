"""Makes the lines of `index` about inferred fields and about bad lines, as text and for JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlpanel.sources.inference.inference import Inference
    from rlpanel.store.snapshot.sample_places import BadLineAt
    from rlpanel.store.snapshot.snapshot import Snapshot

#: Characters of a bad line that are shown, and bytes that hold them.
_SHOWN, _BYTES = 80, 400


def inferred_document(inference: Inference) -> dict[str, Any]:
    """Return what was inferred about the files of one format, for JSON."""
    guesses = [
        {
            "field": guess.meaning,
            "key": guess.key,
            "confidence": guess.confidence,
            "reason": guess.reason,
            "others": [{"key": key, "confidence": confidence} for key, confidence in guess.others],
        }
        for guess in inference.guesses
    ]
    return {"fields": guesses, "step": inference.step, "missing": list(inference.missing)}


def inferred_lines(inferences: Sequence[Inference]) -> Iterator[str]:
    """Yield what was inferred: ``reward ← score.value, 98 % of the records are numbers``."""
    for inference in inferences:
        yield from (guess.sentence for guess in inference.guesses)


def bad_documents(folder: str | os.PathLike[str], bad: Sequence[BadLineAt]) -> list[dict[str, Any]]:
    """Return bad lines for JSON: file, line, offset, reason and the first characters."""
    return [
        {"file": line.file, "line": line.line, "offset": line.offset, "reason": line.reason}
        | {"text": _beginning(os.path.join(folder, line.file), line.offset)}
        for line in bad
    ]


def bad_lines(documents: Sequence[dict[str, Any]], total: int) -> Iterator[str]:
    """Yield bad lines as text, and how many others there are; control characters are written as escapes."""
    for document in documents:
        place = f"{document['line']}" if document["line"] else f"byte {document['offset']}"
        text = "".join(map(_escaped, document["text"]))
        yield f"{document['file']}:{place}: {document['reason']}" + (f": {text}" if text else "")
    if total > len(documents):
        yield f"{total - len(documents):,} more bad lines"


def array_documents(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the undeclared token arrays: name, name in tables of tokens, and samples with values."""
    import numpy as np

    from rlpanel.metrics.logged_arrays import array_names, query_names
    from rlpanel.schema import TOKEN_MEAN

    return [
        {
            "name": name,
            "column": column,
            "samples": int(np.isfinite(snapshot.number(TOKEN_MEAN + name)).sum()),
        }
        for column, name in query_names(array_names(snapshot.numbers)).items()
    ]


def arrays_left_out(snapshot: Snapshot) -> int:
    """Return how many arrays of one sample, at most, have no columns."""
    import numpy as np

    from rlpanel.schema import TOKEN_ARRAYS_LEFT_OUT

    if TOKEN_ARRAYS_LEFT_OUT not in snapshot.numbers:
        return 0
    return int(np.nan_to_num(snapshot.number(TOKEN_ARRAYS_LEFT_OUT)).max(initial=0))


def array_lines(documents: Sequence[dict[str, Any]], left_out: int) -> Iterator[str]:
    """Yield the undeclared token arrays, as text."""
    from rlpanel.schema import MAX_TOKEN_ARRAYS

    for array in documents:
        renamed = f", in tables {array['column']}" if array["column"] != array["name"] else ""
        yield f"token array {array['name']!r}{renamed}: {array['samples']:,} samples"
    if left_out:
        yield f"token arrays left out: {left_out:,} of a sample; the first {MAX_TOKEN_ARRAYS} have columns"


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _beginning(path: str, offset: int) -> str:
    """Return the first characters of a line; empty if its file is not one of lines, or is gone."""
    from rlpanel.sources.files.decompress import open_plain
    from rlpanel.sources.readers.containers import CELLS, DOCUMENT, LINES, container_of

    if container_of(path) not in (LINES, CELLS, DOCUMENT):  # of the others, an offset is not one of bytes
        return ""
    try:
        with open_plain(path) as file:
            while offset > 0 and (passed := file.read(min(offset, 1 << 20))):  # compressed files cannot seek
                offset -= len(passed)
            return file.read(_BYTES).partition(b"\n")[0].decode("utf-8", "replace")[:_SHOWN]
    except (OSError, ValueError):
        return ""
