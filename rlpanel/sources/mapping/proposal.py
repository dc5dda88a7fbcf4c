"""Proposes a mapping for the first records of a file, with the keys that each field could have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlpanel import schema
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.inference.infer import infer
from rlpanel.sources.inference.inference import Guess, Inference
from rlpanel.sources.mapping.first_records import FirstRecords, FoundFile, find_files, read_first
from rlpanel.sources.mapping.value_tree import MAX_KEY, TreeLine, tree_lines

#: Fields that are always asked for; others only where the inference found them.
ASKED = ("prompt", "response", "messages", "reward", "ground_truth", "step", "group")
#: Further fields that can be added: every name that a mapping takes.
MORE = tuple(
    name for name in (*schema.BY_NAME, "rewards", "prompt_token_ids") if name not in (*ASKED, "rank")
)
TEXTS = frozenset({"prompt", "response", "messages"})
#: From this confidence on a guess is sure, and from this one on likely.
SURE, LIKELY = 0.85, 0.6
#: Most files whose first records are read, and most bytes of documents, which are read whole.
_TRIED, _TRIED_BYTES = 20, 64 << 20


@dataclass(frozen=True)
class Proposal:
    """Proposal of the inference for a file.

    Attributes
    ----------
    first : FirstRecords
    inference : Inference
    tree : tuple of TreeLine
        The first record.
    """

    first: FirstRecords
    inference: Inference
    tree: tuple[TreeLine, ...]

    @property
    def keys(self) -> dict[str, str | int]:
        """The proposed mapping; the step is a number if neither the records nor the path name one."""
        keys: dict[str, str | int] = {
            name: key for name, key in self.inference.keys.items() if len(key) <= MAX_KEY
        }
        step = self.inference.step if "step" in self.inference.missing else None
        return keys if step is None else keys | {"step": step}

    @property
    def is_likely(self) -> bool:
        """True if the records look like samples: there is a text that may be a policy's."""
        return bool(self.keys.keys() & {"response", "messages"})

    @property
    def holds_samples(self) -> bool:
        """True unless it is a single record that looks like something else altogether."""
        return self.is_likely or len(self.first.records) > 1

    def guess(self, name: str) -> Guess | None:
        """Return the guess of a field; None if there is none."""
        return next((guess for guess in self.inference.guesses if guess.meaning == name), None)

    def likely_keys(self, name: str) -> list[str]:
        """Return the keys that a field may have, the likeliest first."""
        guess = self.guess(name)
        keys = [] if guess is None else [guess.key, *(key for key, _ in guess.others)]
        return [key for key in keys if len(key) <= MAX_KEY]

    def names(self, keys: Iterable[str]) -> list[str]:
        """Return the fields that are asked for, with those that a mapping has."""
        extra = [name for name in keys if name not in ASKED]
        return [*ASKED, *extra]


def propose(first: FirstRecords) -> Proposal:
    """Infer a mapping from the first records of a file."""
    tree = tuple(tree_lines(first.records[0])) if first.records else ()
    return Proposal(first, infer(first.records, first.file.path), tree)


def propose_for_folder(folder: AnyPath) -> tuple[list[FoundFile], Proposal | None]:
    """Return the files of a folder, and the proposal for the first one whose records look like samples.

    If none does, it is the first file with records; None if no file has any. A JSON document of one record
    that does not look like a sample may be a configuration, with a password in it: it is left out.
    """
    listed: list[FoundFile] = []
    best, left = None, _TRIED_BYTES
    for at, file in enumerate(find_files(folder)):
        found = best is not None and best.is_likely
        if at >= _TRIED or (file.size > left if file.is_document else found):
            listed += [] if file.is_document else [file]
            continue
        left -= file.size if file.is_document else 0
        proposal = propose(read_first(file))
        if file.is_document and not proposal.holds_samples:
            continue
        listed.append(file)
        if proposal.first.records and (best is None or (proposal.is_likely and not found)):
            best = proposal
    return listed, best
