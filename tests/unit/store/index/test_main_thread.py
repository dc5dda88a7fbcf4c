"""The main thread is busy if it used much of the time since the last question."""

from __future__ import annotations

import threading
import time

from rlpanel.store.index.main_thread import MainThread, main_thread_seconds


def test_busy_is_a_share_of_the_time_since_the_last_question() -> None:
    times = iter([(10.0, 0.0), (10.4, 1.0), (11.0, 2.0), (11.0, 3.0)])
    now = [0.0, 0.0]

    def worked() -> float:
        now[:] = next(times)
        return now[0]

    thread = MainThread(worked, lambda: now[1])
    assert [thread.is_busy for _ in range(3)] == [False, True, False]


def test_it_is_the_main_thread_that_is_asked() -> None:
    found = []
    other = threading.Thread(target=lambda: found.append(main_thread_seconds()))
    other.start()
    other.join()
    if hasattr(time, "pthread_getcpuclockid"):
        assert 0 < found[0] <= time.thread_time()
