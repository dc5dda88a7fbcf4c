"""Delays after wrong tokens: per address, per network, and in total."""

from __future__ import annotations

import pytest

from rlpanel.app.security.login import FREE, MAX_WAIT, MAX_WRONG, REMEMBERED, WINDOW, LoginThrottle


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(clock)


def test_the_first_wrong_tokens_cost_nothing_and_then_the_wait_doubles() -> None:
    clock = Clock()
    slow = throttle(clock)
    waits = []
    for _ in range(FREE + 8):
        clock.now += slow.wait("10.0.0.1")
        slow.failed("10.0.0.1")
        waits.append(slow.wait("10.0.0.1"))
    assert waits[:FREE] == [0.0] * (FREE - 1) + [1.0]
    assert waits[FREE:] == [2.0, 4.0, 8.0, 16.0, MAX_WAIT, MAX_WAIT, MAX_WAIT, MAX_WAIT]
    assert slow.wait("10.0.0.2") == 0.0


def test_a_wait_passes() -> None:
    clock = Clock()
    slow = throttle(clock)
    for _ in range(FREE):
        slow.failed("10.0.0.1")
    clock.now += 0.5
    assert slow.wait("10.0.0.1") == pytest.approx(0.5)
    clock.now += 0.5
    assert slow.wait("10.0.0.1") == 0.0


def test_the_right_token_ends_the_count() -> None:
    slow = throttle(Clock())
    for _ in range(FREE):
        slow.failed("10.0.0.1")
    slow.succeeded("10.0.0.1")
    slow.failed("10.0.0.1")
    assert slow.wait("10.0.0.1") == 0.0


def test_many_addresses_are_slowed_down_together() -> None:
    clock = Clock()
    slow = throttle(clock)
    for number in range(MAX_WRONG):
        assert slow.wait(f"10.0.{number}.1") == 0.0
        slow.failed(f"10.0.{number}.1")
    assert slow.wait("192.168.0.1") == WINDOW
    clock.now += WINDOW
    assert slow.wait("192.168.0.1") == 0.0


def test_an_ipv6_network_counts_as_one_address() -> None:
    slow = throttle(Clock())
    for number in range(FREE):
        slow.failed(f"2001:db8::{number + 1}")
    assert slow.wait("2001:db8::ffff") > 0
    assert slow.wait("2001:db8:0:1::1") == 0.0


def test_memory_is_bounded() -> None:
    clock = Clock()
    slow = throttle(clock)
    for number in range(REMEMBERED + 50):
        slow.failed(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(slow._addresses) == REMEMBERED


def test_an_address_is_logged_once_and_many_addresses_are_not_logged_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = throttle(Clock())
    for number in range(300):
        for _ in range(3):
            slow.failed(f"10.0.{number // 256}.{number % 256}")
    said = [record.message for record in caplog.records]
    assert len(said) == 101
    assert len(set(said)) == 101
    assert "further addresses are not logged" in said[-1]
