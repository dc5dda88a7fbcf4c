"""Zip files from a stranger: what they declare is checked, and reading one takes a bounded memory."""

from __future__ import annotations

import struct
import subprocess
import sys
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SourceDamaged, SourceUnready
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.files.file_access import follow_file
from rlpanel.sources.files.zip_members import MAX_MEMBERS, Member, list_members, read_member
from rlpanel.zstd import zstd

START = b'{"version": 2, "eval": {"task": "t"}}'


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return content.getvalue()


def packed(name: bytes, data: bytes, plain: bytes, method: int, size: int | None = None) -> bytes:
    """A zip file with one member whose declared size may be another one."""
    declared = len(plain) if size is None else size
    numbers = struct.pack("<IIIHH", zlib.crc32(plain), len(data), declared, len(name), 0)
    local = b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, method, 0, 0) + numbers + name + data
    entry = b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, method, 0, 0) + numbers
    entry += struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return local + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)


def read(path: Path, content: bytes) -> dict[str, bytes]:
    path.write_bytes(content)
    with follow_file(str(path)) as file:
        return {member.name: read_member(file, member) for member in list_members(file, len(content))}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_as_pythons_own_module_reads_them(tmp_path: Path, method: int) -> None:
    members = {"a": b"1" * 5000, "b/ü": b"", "c": bytes(range(256))}
    assert read(tmp_path / "x", archive(*members.items(), method=method)) == members


def test_zstd_members_of_several_frames_are_read(tmp_path: Path) -> None:
    plain = b"a" * 70_000 + b"b" * 90_000
    frames = zstd.compress(plain[:70_000]) + zstd.compress(plain[70_000:])
    assert read(tmp_path / "x", packed(b"m", frames, plain, 93)) == {"m": plain}


def test_a_member_with_more_bytes_than_declared_is_not_unpacked_further(tmp_path: Path) -> None:
    plain = b"0" * 1_000_000
    for method, data in ((8, zlib.compress(plain)[2:-4]), (93, zstd.compress(plain)), (0, plain)):
        with pytest.raises(SourceDamaged, match="other bytes than the directory declares"):
            read(tmp_path / "x", packed(b"m", data, plain, method, size=10))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no directory at its end"),
        (archive(("a", b"1"))[:-30], "no directory at its end"),
        (archive(("a", b"1"))[40:], "damaged"),
        (packed(b"m", b"x", b"x", 12), "method 12"),
        (packed(b"m", b"x" * 50, b"x", 93), "damaged"),
        (packed(b"m", b"x", b"y", 0), "other bytes"),
    ],
    ids=["empty", "cut", "beheaded", "method", "zstd", "checksum"],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises((SourceUnready, SourceDamaged), match=reason):
        read(tmp_path / "x", content)


def test_more_members_than_the_limit_are_refused_before_they_are_listed(tmp_path: Path) -> None:
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0, 0, 0)
    with pytest.raises(SourceUnready, match="damaged"):
        read(tmp_path / "x", b"PK\x03\x04" + end)
    end64 = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 10**9, 10**9, 10, 0)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, 0, 1)
    with pytest.raises(SourceUnready, match=f"1,000,000,000 members; the limit is {MAX_MEMBERS:,}"):
        read(tmp_path / "x", end64 + locator + end)


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    """The bomb with the highest ratio has one long member that all entries of its directory share."""
    content = bytearray(archive(("a", b"1" * 500), ("b", b"1" * 500)))
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = bytes(4)
    with pytest.raises(SourceUnready, match="overlap"):
        read(tmp_path / "x", bytes(content))


def test_a_file_that_grows_as_no_log_does_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnready, match="fold when unpacked, unlike any log"):
        read(tmp_path / "x", archive(("a", b"0" * (40 << 20))))


def test_all_members_of_a_listed_file_have_places_in_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content := archive(("a", b"1"), ("b", b"2")))
    with follow_file(str(path)) as file:
        listed = list_members(file, len(content))
    assert [type(each) for each in listed] == [Member, Member]
    assert listed[0].offset < listed[1].offset < len(content)


def opened(folder: Path, content: bytes) -> tuple[list[str], int]:
    """Reasons why a log is not read as a run, and the number of its samples."""
    folder.mkdir(exist_ok=True)
    (folder / "log.eval").write_bytes(content)
    (folder / "other.jsonl").write_text('{"step": 0, "prompt": "p", "response": "r", "split": "eval"}\n')
    with rlpanel.open_run(folder, follow=False) as run:
        reasons: list[str] = [*run.unread["reason"]] if len(run.unread) else []
        reasons += [*run.errors["reason"]] if len(run.errors) else []
        return reasons, run.snapshot.all_samples - 1


SAMPLE = b'{"id": 1, "epoch": 1, "messages": [], "scores": {"a": {"value": 1}}}'
NAME = "samples/1_epoch_1.json"


@pytest.mark.parametrize(
    ("members", "reason", "samples"),
    [
        ([("x", b"1")], "neither '_journal/start.json' nor 'header.json'", 0),
        ([("_journal/start.json", b"[]"), (NAME, SAMPLE)], "'_journal/start.json' is a JSON array", 0),
        ([("_journal/start.json", START), (NAME, b"{")], "is not a JSON object", 0),
        ([("_journal/start.json", START), (NAME, b"")], "is not a JSON object", 0),
        ([("_journal/start.json", START), ("../../samples/1_epoch_1.json", SAMPLE)], "", 0),
        ([("_journal/start.json", START), ("samples/../../../x_epoch_1.json", SAMPLE)], "", 1),
        ([("_journal/start.json", START), ("nested.zip", archive((NAME, SAMPLE)))], "", 0),
        ([("_journal/start.json", START), (NAME, SAMPLE)], "", 1),
    ],
    ids=["zip", "start", "half", "blank", "parent", "parent in samples", "nested", "log"],
)
def test_a_strange_log_is_named_and_its_names_are_no_paths(
    tmp_path: Path, members: list[tuple[str, bytes]], reason: str, samples: int
) -> None:
    run = tmp_path / "above" / "beside" / "run"
    run.parent.mkdir(parents=True)
    before = {path for path in tmp_path.rglob("*") if ".rlpanel" not in path.parts}
    reasons, count = opened(run, archive(*members))
    assert (count, [reason in each for each in reasons]) == (samples, [True] if reason else [])
    written = {path for path in tmp_path.rglob("*") if ".rlpanel" not in path.parts} - before
    assert {path.name for path in written} <= {"run", "log.eval", "other.jsonl"}


def test_a_file_of_another_kind_with_the_suffix_is_ignored(tmp_path: Path) -> None:
    assert opened(tmp_path / "run", b"accuracy: 0.5\n") == ([], 0)


def test_a_folder_with_such_a_file_alone_says_what_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "log.eval").write_text("accuracy: 0.5")
    (seen,) = diagnose(Directory(tmp_path)).seen
    assert (seen.name, seen.what) == ("log.eval", "not a zip file, as Inspect's logs are")


_LIMITED = """
import resource, sys
import rlpanel
from rlpanel.api.open_run import open_run
base = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (base + (400 << 20),) * 2)
with open_run(sys.argv[1], follow=False, jobs=0) as run:
    print(run.snapshot.all_samples, len(run.errors) + len(run.unread))
"""


def bomb(kind: str) -> bytes:
    """A small file that would take a gigabyte."""
    zeros, name = bytes(1 << 20), NAME.encode()
    if kind == "deflate":
        deflated = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = b"".join(deflated.compress(zeros) for _ in range(1000)) + deflated.flush()
        return packed(name, data, b"", 8, size=20 << 20)
    packer = zstd.ZstdCompressor()
    data = b"".join(packer.compress(zeros) for _ in range(1000)) + packer.flush()
    return packed(name, data, b"", 93, size=(1000 if kind == "declared" else 20) << 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["declared", "deflate", "zstd"])
def test_a_bomb_is_refused_within_a_limit_of_memory(tmp_path: Path, kind: str) -> None:
    (tmp_path / "log.eval").write_bytes(bomb(kind))
    (tmp_path / "other.jsonl").write_text('{"step": 0, "prompt": "p", "response": "r"}\n')
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.split()) == (0, ["1", "1"]), done.stderr[-2000:]
