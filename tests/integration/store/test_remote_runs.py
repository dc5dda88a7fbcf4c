"""Remote runs, read from a real S3 server: the same rows as a local folder, with few requests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import RemoteError, RunNotFound
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.files import file_access, remote
from rlpanel.sources.files.remote import RetryPause, get_store
from rlpanel.sources.files.remote_file import RemoteFile
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import line, write_run
from tests.limits import SAVED, store_limits
from tests.property.test_invariants import assert_same, follow
from tests.s3 import BUCKET, Bucket, serving
from tests.waiting import wait_until

RANK0, RANK1 = "rollout_data_rank_0.jsonl", "rollout_data_rank_1.jsonl"
STEP1 = [line(1, index=at) for at in range(8)]
STEP2 = [line(2, index=at) for at in range(8)]

#: Seconds; nothing waits this long unless it fails.
PATIENCE = 30.0

#: More bytes than are requested at once without reading ahead.
STEPS = [line(step, index=at) for step in range(1, 7) for at in range(8)]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with serving(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The URL of a run for a single test."""
    return f"{request.node.name.replace('[', '-').rstrip(']')}"


def url(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def look(found: RunIndex) -> Snapshot:
    """Check all files, with new requests to the server."""
    remote.clear_stores()
    return follow(found)


def local(folder: Path, **logs: bytes) -> Snapshot:
    """Return the contents of an index of local files with these bytes."""
    folder.mkdir()
    for file, data in logs.items():
        (folder / f"{file}.jsonl").write_bytes(data)
    return follow(RunIndex(folder, "run", Reading(cache=False)))


def ranges(asked: list[tuple[str, str, str]], file: str) -> list[tuple[int, int]]:
    """Return the requested byte ranges of a file, with inclusive ends."""
    found = [told.removeprefix("bytes=").split("-") for _, at, told in asked if file in at and told]
    return [(int(start), int(end)) for start, end in found]


def write_all_kinds(folder: Path) -> Path:
    """Write a run with a file of each readable kind, and scalars next to them."""
    import pandas as pd
    from backports import zstd

    write_run(folder, ranks=2)
    (folder / "rollout_data_rank_2.jsonl.zst").write_bytes(zstd.compress(line(1, rank=2)))
    pd.DataFrame({"step": [1], "prompt": ["p"], "response": ["r"], "reward": [1.0]}).to_parquet(
        folder / "rollout_data_rank_3.parquet"
    )
    (folder / "scalars.jsonl").write_bytes(b'{"step": 1, "loss": 0.5}\n')
    (folder / "run.json").write_text('{"kl_coef": 0.05}')
    return folder


def test_a_run_in_a_bucket_is_read_as_one_in_a_folder(bucket: Bucket, name: str, tmp_path: Path) -> None:
    here = follow(RunIndex(write_all_kinds(tmp_path / "run"), "run", Reading(cache=False)))
    found = RunIndex(bucket.put_all(tmp_path / "run", f"{name}/deep/run"), "run")
    assert_same(look(found), here)
    assert found.snapshot.scalars.frame().equals(here.scalars.frame())
    assert found.snapshot.constants == here.constants
    assert [run.name for run in rlpanel.discover(url(name))] == ["deep/run"]


def test_of_a_longer_object_only_the_new_bytes_are_read(bucket: Bucket, name: str, tmp_path: Path) -> None:
    long = [line(1, index=at, response="x" * 10_000) for at in range(8)]
    bucket.put(f"{name}/{RANK0}", *long)
    found = RunIndex(url(name), "run")
    look(found)
    bucket.put(f"{name}/{RANK0}", *long, *STEP2)
    with bucket.asked() as asked:
        look(found)
    assert_same(found.snapshot, local(tmp_path / "run", rollout_data_rank_0=b"".join([*long, *STEP2])))
    old, new = len(b"".join(long)), len(b"".join([*long, *STEP2]))
    # The head, to recognise the object, and the new bytes with the last known ones before them.
    assert sorted(ranges(asked, RANK0)) == [(0, 1023), (old - 128, new - 1)]
    assert not [method for method, _, _ in asked if method == "HEAD"]


def test_a_short_object_that_grew_is_read_in_one_request(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    found = RunIndex(url(name), "run")
    look(found)
    bucket.put(f"{name}/{RANK0}", *STEP1, *STEP2)
    with bucket.asked() as asked:
        assert look(found).samples == 16
    assert ranges(asked, RANK0) == [(0, len(b"".join([*STEP1, *STEP2])) - 1)]


def test_storage_that_signs_nothing_is_followed_by_size_and_time(name: str, tmp_path: Path) -> None:
    """For example a host over sftp; this test uses fsspec's in-memory file system."""
    from fsspec.implementations.memory import MemoryFileSystem

    storage, other = MemoryFileSystem(), [STEP1[0].replace(b'"reward"', b'"rewart"'), *STEP1[1:]]
    found = RunIndex(f"memory://{name}/run", "run")
    held = []
    for lines in (STEP1, [*STEP1, *STEP2], STEP1, other):
        storage.pipe_file(f"/{name}/run/{RANK0}", b"".join(lines))
        look(found)
        found.read_last_lines()
        held.append((found.snapshot.samples, found.snapshot.has_number("rewart")))
    assert held == [(8, False), (16, False), (8, False), (8, True)]
    assert [run.name for run in rlpanel.discover(f"memory://{name}")] == ["run"]


def test_a_caller_waits_for_lines_that_the_bucket_just_got(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    reader = Reader(Reading())
    try:
        run = Run(reader.open(url(name)), reader)
        run.wait(PATIENCE)
        assert run.stats().rows == 8
        bucket.put(f"{name}/{RANK0}", *STEP1, *STEP2, STEPS[-1][:40])  # longer, and half a line
        bucket.put(f"{name}/{RANK1}", *(line(1, rank=1, index=at) for at in range(4)))  # a new file
        run.wait(PATIENCE)
        assert (run.stats().rows, run.stats().ranks) == (20, 2)
    finally:
        reader.stop()


def test_a_folder_is_listed_again_for_a_caller_who_waits(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    remote.clear_stores()
    get_store(url(name)).interval = 60.0
    found = [len(list(file_access.scan(url(name))))]
    bucket.put(f"{name}/{RANK1}", *STEP1)
    found.append(len(list(file_access.scan(url(name)))))  # the listing counts for some seconds
    file_access.list_anew(url(name))
    found.append(len(list(file_access.scan(url(name)))))
    remote.clear_stores()
    assert found == [1, 1, 2]


def test_a_half_line_waits_for_its_end(bucket: Bucket, name: str, tmp_path: Path) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1, STEP2[0][:50])
    found = RunIndex(url(name), "run")
    assert look(found).samples == 8
    bucket.put(f"{name}/{RANK0}", *STEP1, STEP2[0])
    assert_same(look(found), local(tmp_path / "run", rollout_data_rank_0=b"".join([*STEP1, STEP2[0]])))


def test_a_last_line_whose_newline_comes_later_counts_once(bucket: Bucket, name: str, tmp_path: Path) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1, STEP2[0].rstrip(b"\n"))
    found = RunIndex(url(name), "run", Reading(line_rest=3600.0))
    assert look(found).samples == 8
    found.read_last_lines()
    assert (found.snapshot.samples, found.snapshot.unread) == (9, ())
    bucket.put(f"{name}/{RANK0}", *STEP1, *STEP2)
    assert_same(look(found), local(tmp_path / "run", rollout_data_rank_0=b"".join([*STEP1, *STEP2])))


@pytest.mark.parametrize("longer", [False, True], ids=["as long", "longer"])
def test_another_object_in_its_place_replaces_all_rows(
    bucket: Bucket, name: str, tmp_path: Path, longer: bool
) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    found = RunIndex(url(name), "run")
    look(found)
    other = [STEP1[0].replace(b'"reward"', b'"rewart"'), *STEP1[1:], *(STEP2 if longer else [])]
    bucket.put(f"{name}/{RANK0}", *other)
    assert_same(look(found), local(tmp_path / "run", rollout_data_rank_0=b"".join(other)))


def test_an_object_replaced_between_two_reads_is_not_mixed_with_the_one_before(
    bucket: Bucket, name: str, tmp_path: Path
) -> None:
    bucket.put(f"{name}/{RANK0}", *STEPS)
    found = RunIndex(url(name), "run", Reading(turn_bytes=1 << 13))
    remote.clear_stores()
    found.rescan()
    found.read()
    assert 0 < found.bytes_read < 1 << 13
    bucket.put(f"{name}/{RANK0}", *reversed(STEPS))
    assert_same(look(found), local(tmp_path / "run", rollout_data_rank_0=b"".join(reversed(STEPS))))


def test_an_object_replaced_between_listing_and_reading_is_not_mixed_with_the_one_before(
    bucket: Bucket, name: str, tmp_path: Path
) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    found = RunIndex(url(name), "run")
    look(found)
    bucket.put(f"{name}/{RANK0}", *STEP1, *STEPS)
    remote.clear_stores()
    found.rescan()
    last = [*reversed(STEPS), *STEP1]
    bucket.put(f"{name}/{RANK0}", *last)
    while found.read():
        pass
    assert_same(found.snapshot, local(tmp_path / "run", rollout_data_rank_0=b"".join(last)))


def test_the_status_after_reading_is_of_what_was_read(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    place = f"{url(name)}/{RANK0}"
    get_store(place).scan(url(name))
    file = RemoteFile(place)
    before = file.stat().st_size
    bucket.put(f"{name}/{RANK0}", *STEP1, *STEP2)
    file.read(1, 0)
    assert (before, file.stat().st_size) == (len(b"".join(STEP1)), len(b"".join([*STEP1, *STEP2])))


def test_the_rows_of_a_deleted_object_go(bucket: Bucket, name: str, tmp_path: Path) -> None:
    bucket.put_all(write_run(tmp_path / "two", ranks=2), name)
    found = RunIndex(url(name), "run")
    look(found)
    bucket.delete(f"{name}/{RANK1}")
    assert_same(
        look(found), local(tmp_path / "run", rollout_data_rank_0=(tmp_path / "two" / RANK0).read_bytes())
    )


def test_while_nothing_changes_one_listing_a_look_is_all_that_is_asked(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    found = RunIndex(url(name), "run")
    look(found)
    with bucket.asked() as asked:
        look(found)
    assert [(method, "list-type" in at) for method, at, _ in asked] == [("GET", True)]


def test_a_sample_is_read_back_by_range(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1, *(line(2, index=at, response="x" * 100_000) for at in range(40)))
    found = RunIndex(url(name), "run")
    snapshot = look(found)
    with bucket.asked() as asked:
        samples = [fetch(found, RunView(snapshot), row) for row in range(8)]
    assert [sample.prompt for sample in samples] == [f"prompt {at // 4} of rank 0" for at in range(8)]
    assert ranges(asked, RANK0) == [(0, (1 << 20) - 1)]  # of more than 4 MB


def test_a_sample_of_a_replaced_object_is_not_shown(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    found = RunIndex(url(name), "run")
    snapshot = look(found)
    bucket.put(f"{name}/{RANK0}", *STEP2)
    remote.clear_stores()
    with pytest.raises(rlpanel.SourceChanged):
        fetch(found, RunView(snapshot), 0)


def test_ranges_of_an_object_put_together_are_what_reading_it_gives(
    bucket: Bucket, name: str, tmp_path: Path
) -> None:
    bucket.put_all(write_run(tmp_path / "run", steps=4), name)
    found = RunIndex(url(name), "run", Reading(backlog_bytes=1), limits=store_limits(range_bytes=2000))
    remote.clear_stores()
    found.rescan()
    assert found.has_backlog
    here = RunIndex(tmp_path / "run", "run", Reading(cache=False))
    assert_same(follow(found), follow(here))


def test_the_index_lies_in_the_users_cache_folder(
    bucket: Bucket, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bucket.put(f"{name}/{RANK0}", *STEP1)
    first = RunIndex(url(name), "run", limits=SAVED)
    look(first)
    first.save(last=True)
    again = RunIndex(url(name), "run", limits=SAVED)
    assert_same(look(again), first.snapshot)
    assert (again.bytes_read, len(list((tmp_path / "rlpanel").glob("*/manifest")))) == (0, 1)


def test_a_server_that_does_not_answer_for_a_while_costs_nothing_that_is_shown(
    bucket: Bucket, name: str
) -> None:
    bucket.put(f"{name}/run/{RANK0}", *STEP1)
    remote.clear_stores()
    reader = Reader(Reading(rescan_interval=0.1))
    root, found = reader.watch_root(url(name)), reader.open(url(f"{name}/run"))
    wait_until(lambda: root.runs and found.snapshot.samples == 8)
    bucket.stop()
    try:
        wait_until(lambda: any("request to s3://" in problem for problem in found.snapshot.problems))
        assert ([run.name for run in root.runs or []], found.snapshot.samples) == (["run"], 8)
    finally:
        bucket.start()
    bucket.put(f"{name}/run/{RANK0}", *STEP1, *STEP2)
    wait_until(lambda: (found.snapshot.samples, found.snapshot.problems) == (16, ()))
    assert reader.failure == ""
    reader.stop()


def test_each_failure_doubles_the_rest_and_an_answer_ends_it() -> None:
    rest, left = RetryPause(100.0), []
    for _ in range(3):
        rest.record_failure("no answer")
        with pytest.raises(RemoteError) as told:
            rest.check()
        left.append(str(told.value))
    assert left == [f"no answer; next attempt in {seconds} s" for seconds in (100, 200, 300)]
    rest.record_success()
    rest.check()
    assert rest.reason == ""


@pytest.mark.parametrize(
    ("where", "error", "remedy"),
    [
        ("s3://nobodys-bucket/runs", RemoteError, "AWS_ENDPOINT_URL"),
        (url("nothing"), RunNotFound, "nothing is there yet"),
        ("nosuch://host/runs", RemoteError, "s3://, gs://, hf://"),
    ],
    ids=["bucket", "prefix", "scheme"],
)
def test_what_cannot_be_found_says_what_to_do(
    bucket: Bucket, where: str, error: type[Exception], remedy: str
) -> None:
    with pytest.raises(error, match=remedy):
        rlpanel.open_run(where, follow=False)


def test_without_the_right_to_read_credentials_are_named(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/{RANK0}", *STEP1)
    remote.clear_stores()
    with bucket.guarded(), pytest.raises(RemoteError, match="AWS_PROFILE"):
        rlpanel.open_run(url(name), follow=False)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(RemoteError, match="set FSSPEC_SFTP_PASSWORD") as told:
        rlpanel.open_run("sftp://me:hunter2@host/runs", follow=False)
    assert "hunter2" not in str(told.value)
    for where in ("sftp://me@host", "sftp://host:22", "s3://bucket/a:b@c"):
        remote.refuse_password(where)


@pytest.mark.parametrize("packages", [("fsspec",), ("s3fs", "obstore")], ids=" and ".join)
def test_without_the_packages_the_extra_is_named(packages: tuple[str, ...]) -> None:
    blocked = f"sys.modules.update(dict.fromkeys({packages}))"
    code = f"import sys; {blocked}; from rlpanel.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "index", "s3://bucket/run"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert '"fsspec>=' in done.stderr


def test_a_name_in_the_address_does_not_leave_the_root(bucket: Bucket, name: str) -> None:
    bucket.put(f"{name}/mine/{RANK0}", *STEP1)
    bucket.put(f"{name}/secret/{RANK0}", *STEP1)
    directory = Directory(url(f"{name}/mine"))
    for away in ("../secret", f"../../{name}/secret", f"s3://{BUCKET}/{name}/secret", "/etc", "..", "a\0b"):
        with pytest.raises(RunNotFound):
            directory.run_path(away)
