"""An index that one machine publishes in a folder or a bucket, and that others start from."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.errors import SettingError
from rlpanel.settings import Reading
from rlpanel.sources.files import remote
from rlpanel.store.cache.run_cache import RunCache
from rlpanel.store.cache.shared_index import Lease, Shelf, newest, open_shelf
from rlpanel.store.index.run_index import RunIndex
from tests.factories import line
from tests.limits import SAVED
from tests.property.test_invariants import assert_same, follow
from tests.small_s3 import SmallS3

RUN = "s3://trainings/run"
LOG = "run/rollout_data_rank_0.jsonl"
STEPS = [b"".join(line(step, index=at) for at in range(4)) for step in range(1, 4)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    """A server with a run."""
    with SmallS3().serving() as made:
        for name, value in (made.environment() | {"RLPANEL_REMOTE_INTERVAL": "0.05"}).items():
            monkeypatch.setenv(name, value)
        made.put(LOG, STEPS[0])
        remote.clear_stores()
        yield made
        remote.clear_stores()


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the index is published."""
    return str(tmp_path / "shared") if request.param == "folder" else "s3://trainings/indexes"


class Machine:
    """A machine with a cache folder of its own."""

    def __init__(self, name: str, tmp_path: Path, place: str, patch: pytest.MonkeyPatch) -> None:
        self._home, self._place, self._patch = tmp_path / name, place, patch

    def read(self) -> RunIndex:
        """Read the run and save its index."""
        self._patch.setenv("XDG_CACHE_HOME", str(self._home))
        remote.clear_stores()
        made = RunIndex(RUN, "run", Reading(index=self._place), limits=SAVED)
        follow(made)
        made.save(last=True)
        return made

    def publish(self) -> RunIndex:
        """Read the run and publish its index."""
        made = self.read()
        RunCache(made.path, Reading().line_bytes, self._place).publish()
        made.close()
        return made


@pytest.fixture
def machines(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Machine]:
    return Machine("one", tmp_path, place, monkeypatch), Machine("two", tmp_path, place, monkeypatch)


def test_another_machine_starts_from_the_published_index(
    server: SmallS3, machines: tuple[Machine, Machine]
) -> None:
    first = machines[0].publish()
    found = machines[1].read()
    assert_same(found.snapshot, first.snapshot)
    assert found.bytes_read == 0


def test_lines_after_an_old_index_are_read_from_the_log(
    server: SmallS3, machines: tuple[Machine, Machine]
) -> None:
    machines[0].publish()
    server.put(LOG, STEPS[0] + STEPS[1])
    found = machines[1].read()
    assert (found.snapshot.samples, found.bytes_read) == (8, len(STEPS[1]))


def test_a_later_index_replaces_the_former_one_and_its_file(
    server: SmallS3, machines: tuple[Machine, Machine], place: str
) -> None:
    machines[0].publish()
    shelf = open_shelf(place, "run")
    before, _ = newest(shelf)
    server.put(LOG, STEPS[0] + STEPS[1])
    machines[0].publish()
    now, _ = newest(shelf)
    assert before is not None
    assert now is not None
    assert (before.rows, now.rows) == (4, 8)
    with pytest.raises(FileNotFoundError):
        shelf.get(before.object)


def test_two_machines_do_not_publish_at_the_same_time(
    server: SmallS3, machines: tuple[Machine, Machine], place: str
) -> None:
    lease = Lease(open_shelf(place, "run"), "other-machine:7")
    with pytest.raises(SettingError, match="other-machine:7 publishes this index; its lease ends in"):
        machines[0].publish()
    lease.release()
    machines[0].publish()


def test_a_lease_that_ended_is_taken_and_its_former_owner_is_refused(server: SmallS3, place: str) -> None:
    shelf = open_shelf(place, "run")
    slow = Lease(shelf, "slow")
    content = json.loads(shelf.get("lease.json")[0]) | {"until": time.time() - 1}
    version = shelf.put("lease.json", json.dumps(content).encode())
    Lease(shelf, "next")
    with pytest.raises(FileExistsError):
        shelf.put("lease.json", b"{}", version)
    with pytest.raises(SettingError, match="has taken the lease"):
        slow.renew()


@pytest.mark.parametrize("damage", ["object", "pointer"])
def test_a_damaged_index_is_not_used_and_said(
    server: SmallS3,
    machines: tuple[Machine, Machine],
    place: str,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    machines[0].publish()
    shelf: Shelf = open_shelf(place, "run")
    found, _ = newest(shelf)
    assert found is not None
    shelf.put(found.object if damage == "object" else "latest.json", b"damaged")
    with caplog.at_level(logging.WARNING):
        read = machines[1].read()
    assert (read.snapshot.samples, read.bytes_read) == (4, len(STEPS[0]))
    assert "damaged" in caplog.text


def test_an_old_index_is_called_old(
    server: SmallS3, machines: tuple[Machine, Machine], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    machines[0].publish()
    shelf = open_shelf(place, "run")
    content = json.loads(shelf.get("latest.json")[0])
    content["time"] -= 3 * 3600
    shelf.put("latest.json", json.dumps(content).encode())
    with caplog.at_level(logging.WARNING):
        machines[1].read()
    assert "3 hours old" in caplog.text


def test_storage_without_conditions_is_refused() -> None:
    with pytest.raises(SettingError, match="in a folder or at s3://"):
        open_shelf("gs://bucket/indexes", "run")


def test_an_index_whose_upload_was_cut_is_not_used(
    server: SmallS3, machines: tuple[Machine, Machine], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    machines[0].publish()
    shelf = open_shelf(place, "run")
    found, _ = newest(shelf)
    assert found is not None
    whole = shelf.get(found.object)[0]
    shelf.put(found.object, whole[: len(whole) // 2])
    with caplog.at_level(logging.WARNING):
        read = machines[1].read()
    assert (read.snapshot.samples, read.bytes_read) == (4, len(STEPS[0]))
    assert f"{found.object} is damaged; the logs are read instead" in caplog.text


def test_an_index_of_another_version_is_refused_by_name(
    server: SmallS3, machines: tuple[Machine, Machine], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    machines[0].publish()
    shelf = open_shelf(place, "run")
    content = json.loads(shelf.get("latest.json")[0]) | {"code": "of-last-year", "owner": "old-machine:7"}
    shelf.put("latest.json", json.dumps(content).encode())
    with caplog.at_level(logging.WARNING):
        read = machines[1].read()
    assert (read.snapshot.samples, read.bytes_read) == (4, len(STEPS[0]))
    assert (
        "index of 4 samples by old-machine:7 is not used: another version of rlpanel made it" in caplog.text
    )


def test_a_writer_that_lost_its_lease_does_not_replace_the_index_of_the_next(
    server: SmallS3, machines: tuple[Machine, Machine], place: str
) -> None:
    machines[0].publish()
    shelf = open_shelf(place, "run")
    before, version = newest(shelf)
    server.put(LOG, STEPS[0] + STEPS[1])
    machines[1].publish()
    with pytest.raises(FileExistsError):
        shelf.put("latest.json", b"{}", version)
    now, _ = newest(shelf)
    assert before is not None
    assert now is not None
    assert (before.rows, now.rows) == (4, 8)
