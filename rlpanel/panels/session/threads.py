"""Threads for work that would block the event loop, in pools so that long work does not delay short work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor


class Threads:
    """Pools of threads, which start when they get work.

    Attributes
    ----------
    views : ThreadPoolExecutor
        Short work of the views, such as a comparison.
    queries : ThreadPoolExecutor
        Queries and exports, which may take minutes.
    texts : ThreadPoolExecutor
        Reads the texts of the grid's rows.
    media : ThreadPoolExecutor
        Reads audio and video: a disk that does not answer delays nothing else.
    """

    def __init__(self) -> None:
        self.views = ThreadPoolExecutor(2, "rlpanel-views")
        self.queries = ThreadPoolExecutor(2, "rlpanel-asking")
        self.texts = ThreadPoolExecutor(2, "rlpanel-texts")
        self.media = ThreadPoolExecutor(4, "rlpanel-media")

    def close(self) -> None:
        """Start no further work, and let the threads end after what they do now."""
        for pool in (self.views, self.queries, self.texts, self.media):
            pool.shutdown(wait=False, cancel_futures=True)
