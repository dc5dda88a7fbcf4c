"""Buckets that throttle, refuse, lag behind and lose objects: each is said, and the rows stay right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fsspec.config import conf as fsspec_settings
from s3fs import S3FileSystem

from rlpanel.settings import Reading
from rlpanel.sources.files import remote
from rlpanel.sources.files.remote import get_store
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import line
from tests.property.test_invariants import follow
from tests.small_s3 import Fault, SmallS3

RUN = "s3://trainings/run"
RANKS = 40
STEPS = [b"".join(line(step, index=at) for at in range(4)) for step in range(1, 4)]


@pytest.fixture(params=["obstore", "s3fs"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    """A server with a run of many ranks, read by one client and by the other."""
    with SmallS3().serving() as made:
        settings = made.environment() | {"RLPANEL_REMOTE_INTERVAL": "0.05", "AWS_MAX_ATTEMPTS": "2"}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        if request.param == "s3fs":  # fsspec's own settings make it the client
            monkeypatch.setitem(fsspec_settings, "s3", {"endpoint_url": settings["AWS_ENDPOINT_URL"]})
        for rank in range(RANKS):
            made.put(f"run/rollout_data_rank_{rank}.jsonl", STEPS[0])
        S3FileSystem.clear_instance_cache()
        remote.clear_stores()
        yield made
        remote.clear_stores()


def look(found: RunIndex) -> Snapshot:
    """Look at all files, with a new listing."""
    for listing in get_store(RUN)._folders.values():
        listing.due = 0.0
    return follow(found)


def is_obstore() -> bool:
    """Return True if obstore makes the requests."""
    return type(get_store(RUN)._requests).__name__ == "S3Requests"


def opened() -> RunIndex:
    found = RunIndex(RUN, "run", Reading(cache=False))
    assert follow(found).samples == 4 * RANKS
    return found


def test_many_objects_take_one_request_each_and_one_listing(server: SmallS3) -> None:
    found = opened()
    most = RANKS if is_obstore() else 2 * RANKS
    assert server.counted["get"] + server.counted["head"] <= most
    for rank in range(RANKS):
        server.put(f"run/rollout_data_rank_{rank}.jsonl", STEPS[0] + STEPS[1])
    server.counted.clear()
    assert look(found).samples == 8 * RANKS
    assert server.counted["get"] + server.counted["head"] <= most
    assert server.counted["list"] <= 2


def test_of_many_objects_only_the_changed_one_is_read(server: SmallS3) -> None:
    found = opened()
    server.put("run/rollout_data_rank_7.jsonl", STEPS[0] + STEPS[1])
    server.counted.clear()
    assert look(found).samples == 4 * RANKS + 4
    assert server.counted["get"] == 1


def test_another_object_of_the_same_size_replaces_the_rows(server: SmallS3) -> None:
    found = opened()
    other = STEPS[0].replace(b'"reward"', b'"rewart"')
    server.put("run/rollout_data_rank_7.jsonl", other)
    snapshot = look(found)
    assert (snapshot.samples, snapshot.has_number("rewart")) == (4 * RANKS, True)


def test_an_object_that_the_listing_lost_keeps_its_rows_until_it_is_deleted(server: SmallS3) -> None:
    found = opened()
    server.listing = {key: kept for key, kept in server.objects.items() if not key.endswith("_3.jsonl")}
    assert look(found).samples == 4 * RANKS
    server.listing = None
    del server.objects["run/rollout_data_rank_3.jsonl"]
    server.keys = []
    snapshot = look(found)
    assert snapshot.samples == 4 * (RANKS - 1)
    assert [unread.file for unread in snapshot.unread] == ["rollout_data_rank_3.jsonl"]
    assert "4 samples" in snapshot.unread[0].reason
    server.put("run/rollout_data_rank_3.jsonl", STEPS[0])
    snapshot = look(found)
    assert (snapshot.samples, snapshot.unread) == (4 * RANKS, ())


def test_many_deleted_objects_are_counted_and_the_first_are_named(server: SmallS3) -> None:
    found = opened()
    for rank in range(20, RANKS):
        del server.objects[f"run/rollout_data_rank_{rank}.jsonl"]
    server.keys = []
    (unread,) = look(found).unread
    assert unread.file.endswith("rollout_data_rank_22.jsonl and 17 more")
    assert f"{4 * (RANKS - 20)} samples" in unread.reason


def test_a_listed_object_that_is_gone_is_named(server: SmallS3) -> None:
    found = opened()
    server.put("run/rollout_data_rank_99.jsonl", STEPS[0])
    server.listing = dict(server.objects)
    del server.objects["run/rollout_data_rank_99.jsonl"]
    snapshot = look(found)
    assert snapshot.samples == 4 * RANKS
    assert "rollout_data_rank_99.jsonl" in [unread.file for unread in snapshot.unread]


@pytest.mark.parametrize("server", ["obstore"], indirect=True)
def test_a_short_fault_of_the_storage_is_waited_for(server: SmallS3) -> None:
    found = opened()
    server.put("run/rollout_data_rank_7.jsonl", STEPS[0] + STEPS[1])
    server.faults = [Fault(503, "SlowDown", 1)]
    snapshot = look(found)
    assert (snapshot.samples, snapshot.problems) == (4 * RANKS + 4, ())


@pytest.mark.parametrize("server", ["obstore"], indirect=True)
def test_storage_that_throttles_is_named_and_its_rows_stay(server: SmallS3) -> None:
    found = opened()
    server.put("run/rollout_data_rank_7.jsonl", STEPS[0] + STEPS[1])
    server.faults = [Fault(503, "SlowDown", 100)]
    snapshot = look(found)
    assert snapshot.samples == 4 * RANKS
    assert any("SlowDown" in str(unread) or "reduce" in str(unread).lower() for unread in snapshot.unread)
    server.faults = []
    get_store(RUN)._pause.record_success()
    snapshot = look(found)
    assert (snapshot.samples, snapshot.unread) == (4 * RANKS + 4, ())


def test_credentials_that_expired_are_named_with_the_remedy(server: SmallS3) -> None:
    found = opened()
    server.faults = [Fault(400, "ExpiredToken", 100, method="LIST")]
    snapshot = look(found)
    assert snapshot.samples == 4 * RANKS
    assert any("expired" in problem and "aws sso login" in problem for problem in snapshot.problems)
    server.faults = []
    get_store(RUN)._pause.record_success()
    assert look(found).problems == ()


def test_many_folders_are_listed_by_one_prefix(server: SmallS3) -> None:
    server.objects.clear()
    server.keys = []
    for step in range(30):
        server.put(f"run/step_{step}/rollout.jsonl", line(step))
    folders = [f"{RUN}/step_{step}" for step in range(30)]
    store = get_store(RUN)
    store.scan(RUN)
    server.counted.clear()
    names = [[entry.name for entry in store.scan(folder)] for folder in folders]
    assert names == [["rollout.jsonl"]] * 30
    assert server.counted["list"] == (1 if is_obstore() else 30)
    with pytest.raises(FileNotFoundError):
        store.scan(f"{RUN}/step_30")


@pytest.mark.parametrize("server", ["obstore"], indirect=True)
def test_a_bucket_of_another_region_is_read_through_fsspec(server: SmallS3) -> None:
    server.faults = [Fault(301, "PermanentRedirect", 1, method="LIST")]
    assert is_obstore()
    opened()
    assert not is_obstore()
