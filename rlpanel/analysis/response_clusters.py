"""Clusters of responses that are nearly the same, over a range of steps.

Similarity is the share of common sequences of three words (Jaccard's index), estimated by minhash. Only pairs
with an equal band of the signature are compared, so the time grows linearly with the number of responses. A
response belongs to a cluster if it is similar to one of its members.

The signatures are computed with numpy: rensa takes as long, since it needs the sequences as texts, and
datasketch also needs scipy.

References
----------
Broder 1997, On the resemblance and containment of documents.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.text_features import words_of
from rlpanel.store.columns.related_rows import has_key, mix
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_many_texts
from rlpanel.store.snapshot.snapshot import Snapshot

#: Maximum number of different responses to read.
MAX_RESPONSES = 20_000
#: Values of a signature, and values of each of its bands.
SIGNATURE, BAND = 128, 4
#: Minimum similarity of two responses of a cluster.
SIMILAR = 0.7
#: Minimum number of samples of a cluster, and maximum number of clusters.
MIN_SAMPLES, MAX_CLUSTERS = 3, 100
#: Maximum number of characters of an example.
EXAMPLE_CHARS = 400
#: Seconds between two progress results.
PULSE = 0.25

_FACTORS = np.random.default_rng(17).integers(1, 2**63, SIGNATURE, dtype=np.uint64) | np.uint64(1)
_BORDER = 1


@dataclass(frozen=True)
class ResponseCluster:
    """Samples with nearly the same response.

    Attributes
    ----------
    rows : ndarray of int
        The samples, by step.
    first, last : int
        First and last step.
    prompts : int
        Number of different prompts.
    reward : float
        Mean reward; NaN if it is not logged.
    texts : int
        Number of different responses.
    example : str
        The most frequent response, at most `EXAMPLE_CHARS` characters of it.
    uid : str
        A sample with this response.
    """

    rows: np.ndarray
    first: int
    last: int
    prompts: int
    reward: float
    texts: int
    example: str
    uid: str

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.rows)


@dataclass(frozen=True)
class Clustering:
    """The clusters of a range of steps so far.

    Attributes
    ----------
    read, total : int
        Number of different responses that were read, and to read.
    samples : int
        Number of samples with these responses.
    all_samples : int
        Number of samples of the steps that have a response.
    clusters : tuple of ResponseCluster
        By size, the largest first; at most `MAX_CLUSTERS`.
    complete : bool
    """

    read: int
    total: int
    samples: int
    all_samples: int
    clusters: tuple[ResponseCluster, ...] = ()
    complete: bool = False


def response_clusters(index: RunIndex, snapshot: Snapshot, first: int, last: int) -> Iterator[Clustering]:
    """Find the clusters of the steps ``first`` to ``last``; yield the progress, and last the clusters."""
    step = snapshot.metadata("step")
    rows = np.flatnonzero(snapshot.alive & (step >= first) & (step <= last))
    if snapshot.is_stored("response_chars"):
        rows = rows[np.isfinite(snapshot.number("response_chars")[rows])]
    else:
        rows = rows[:0]
    all_samples = len(rows)
    hashes = snapshot.metadata("response_hash")[rows]
    distinct, place = np.unique(hashes, return_index=True)
    chosen = snapshot.sample_rows(np.sort(rows[place]), MAX_RESPONSES)
    if len(chosen) < len(distinct):
        rows = rows[has_key(hashes, snapshot.metadata("response_hash")[chosen])]
    progress = Clustering(0, len(chosen), len(rows), all_samples)
    yield progress
    responses = _Responses()
    last_yield = time.monotonic()
    for row, texts in zip(chosen.tolist(), fetch_many_texts(index, snapshot, chosen), strict=True):
        responses.add(row, texts)
        if time.monotonic() - last_yield > PULSE:
            last_yield = time.monotonic()
            yield Clustering(len(responses), len(chosen), len(rows), all_samples)
    clusters = tuple(_clusters(snapshot, rows, chosen, responses))
    yield Clustering(len(chosen), len(chosen), len(rows), all_samples, clusters, complete=True)


class _Responses:
    """Keeps the signatures and beginnings of responses."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.signatures: list[np.ndarray] = []
        self.beginnings: list[str] = []

    def __len__(self) -> int:
        return len(self.signatures)

    def add(self, row: int, texts: Mapping[str, str] | None) -> None:
        """Add the response of a row; one that cannot be read (None) is like no other."""
        if texts is None:
            self.signatures.append(signature([-2 - row]))
            self.beginnings.append("")
            return
        text = texts.get("response", "")
        codes = self._codes
        self.signatures.append(signature([codes.setdefault(word, len(codes)) for word in words_of(text)]))
        self.beginnings.append(text[:EXAMPLE_CHARS])


def signature(words: list[int]) -> np.ndarray:
    """Return the minhash of a text's sequences of three words, shape (SIGNATURE,).

    The borders of a text count as words, so that texts of one word have sequences, too.
    """
    codes = np.array([-_BORDER, *words, -_BORDER], np.int64).view(np.uint64)
    codes = np.append(codes, codes[-1:]) if len(codes) < 3 else codes
    mixed = mix(codes)
    sequences = mix(mixed[:-2] ^ mix(mixed[1:-1] + np.uint64(1)) ^ mix(mixed[2:] + np.uint64(2)))
    return ((sequences[:, None] * _FACTORS) >> np.uint64(32)).min(axis=0).astype(np.uint32)


def similar_texts(signatures: np.ndarray) -> np.ndarray:
    """Return the cluster of each text, shape (N,): the index of its first member.

    Parameters
    ----------
    signatures : ndarray of uint32, shape (N, SIGNATURE)
    """
    count = len(signatures)
    pairs = [np.empty(0, np.int64)]
    for start in range(0, SIGNATURE, BAND):
        band = np.ascontiguousarray(signatures[:, start : start + BAND]).view(f"V{4 * BAND}").ravel()
        _, first, bucket = np.unique(band, return_index=True, return_inverse=True)
        other = first[bucket]
        pairs.append(np.flatnonzero(other != np.arange(count)) * count + other[other != np.arange(count)])
    found = np.unique(np.concatenate(pairs))
    left, right = found // max(count, 1), found % max(count, 1)
    alike = np.concatenate(
        [np.empty(0, bool)]
        + [
            (signatures[left[at : at + 4096]] == signatures[right[at : at + 4096]]).mean(axis=1) >= SIMILAR
            for at in range(0, len(left), 4096)
        ]
    )
    return _united(count, left[alike], right[alike])


def _united(count: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the first member of each element's set, after uniting these pairs."""
    parent = list(range(count))

    def root(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        a, b = root(one), root(other)
        parent[max(a, b)] = min(a, b)
    return np.array([root(element) for element in range(count)], np.int64)


def _clusters(
    snapshot: Snapshot, rows: np.ndarray, chosen: np.ndarray, responses: _Responses
) -> Iterator[ResponseCluster]:
    """Yield the clusters of enough samples, the largest first."""
    if not len(chosen):
        return
    cluster_of_text = similar_texts(np.stack(responses.signatures))
    response = snapshot.metadata("response_hash")
    hashes = response[chosen]
    order = np.argsort(hashes)
    text = order[np.searchsorted(hashes[order], response[rows])]  # index in `chosen` of each row's response
    cluster = cluster_of_text[text]
    sizes = np.bincount(cluster, minlength=len(chosen))
    listed = [code for code in np.argsort(-sizes, kind="stable").tolist() if sizes[code] >= MIN_SAMPLES]
    rewards = snapshot.counted("reward") if snapshot.is_stored("reward") else np.full(snapshot.rows, np.nan)
    step = snapshot.metadata("step")
    for code in listed[:MAX_CLUSTERS]:
        inside = np.flatnonzero(cluster == code)
        inside = inside[np.argsort(step[rows[inside]], kind="stable")]
        members, texts = rows[inside], text[inside]
        usual = int(np.bincount(texts).argmax())
        reward = rewards[members][np.isfinite(rewards[members])]
        yield ResponseCluster(
            rows=members,
            first=int(step[members[0]]),
            last=int(step[members[-1]]),
            prompts=len(np.unique(snapshot.prompts(members))),
            reward=float(reward.mean()) if len(reward) else float("nan"),
            texts=len(np.unique(texts)),
            example=responses.beginnings[usual],
            uid=snapshot.uid(int(members[np.argmax(texts == usual)])),
        )
