"""Compressed logs give the lines of the plain log, however they were compressed and cut."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from rlpanel.errors import SourceChanged, SourceDamaged
from rlpanel.recording.writer.writer import RolloutWriter
from rlpanel.settings import Reading
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.files.decompress import DecompressedStream
from rlpanel.sources.readers.compressed import CompressedFile
from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append, line
from tests.limits import SAVED

LINES = [line(step, index=index) for step in range(1, 5) for index in range(8)]
BUDGET = 1 << 20


def gz(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


def zst(*parts: bytes) -> bytes:
    return b"".join(zstandard.compress(part) for part in parts)


PACKERS = [pytest.param(gz, ".gz", id="gz"), pytest.param(zst, ".zst", id="zst")]


def reader(path: Path, line_bytes: int = 1 << 20) -> CompressedFile:
    return CompressedFile(str(path), path.name, Native(), line_bytes)


def drain(file: CompressedFile, budget: int = BUDGET) -> Chunk:
    """All that can be had now, as one chunk."""
    whole, more = Chunk(), True
    while more:
        for chunk in file.poll(budget):
            whole.raw_locators += chunk.raw_locators
            whole.parts += chunk.parts
            whole.bad += chunk.bad
            whole.generation, more = chunk.generation, chunk.more
    return whole


def offsets(lines: list[bytes]) -> list[int]:
    """Return the offset of each line in the plain log."""
    return [sum(map(len, lines[:at])) for at in range(len(lines))]


def store(run: Path, **reading: int) -> RunIndex:
    index = RunIndex(run, "run", Reading(**reading), limits=SAVED)
    index.rescan()
    while index.read():
        pass
    return index


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
@pytest.mark.parametrize("budget", [64, 1000, BUDGET])
def test_lines_stand_at_their_offsets_in_the_plain_log(
    tmp_path: Path, pack: Callable[..., bytes], suffix: str, budget: int
) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    path.write_bytes(pack(b"".join(LINES)))
    found = drain(reader(path), budget)
    assert [place.offset for place in found.locators] == offsets(LINES)


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
def test_a_log_that_grows_byte_by_byte_is_read_as_far_as_it_goes(
    tmp_path: Path, pack: Callable[..., bytes], suffix: str
) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    packed = pack(*LINES[:3])
    path.touch()
    file, seen = reader(path), 0
    for at in range(len(packed)):
        append(path, packed[at : at + 1])
        seen += len(drain(file).records)
    assert seen == 3


def test_each_frame_is_read_as_soon_as_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.zst"
    path.touch()
    file, counts = reader(path), []
    for some in LINES[:5]:
        append(path, zst(some))
        counts.append(len(drain(file).records))
    assert counts == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
def test_a_sample_is_read_back_from_the_middle(
    tmp_path: Path, pack: Callable[..., bytes], suffix: str
) -> None:
    (tmp_path / f"x.jsonl{suffix}").write_bytes(pack(b"".join(LINES[:20]), b"".join(LINES[20:])))
    index = store(tmp_path)
    snapshot = index.snapshot
    row = snapshot.row(f"x.jsonl{suffix}:{offsets(LINES)[25]}")
    sample = fetch(index, RunView(snapshot), row)
    assert (sample.step, sample.line) == (4, 26)


def test_reading_back_begins_at_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 40 frames of 300 KB is decompressed again, not those before it."""
    path = tmp_path / "x.jsonl.zst"
    frame = b"".join(line(1, index=at, prompt="p" * 30_000) for at in range(10))
    path.write_bytes(zst(*[frame] * 40))
    file = reader(path)
    found = drain(file)
    begun: list[int] = []
    skip_to = DecompressedStream.skip_to

    def note(self: DecompressedStream, offset: int) -> None:
        begun.append(offset - self._decompressor.plain_offset)
        skip_to(self, offset)

    monkeypatch.setattr(DecompressedStream, "skip_to", note)
    file.fetch(found.locators[-1])
    assert 0 < begun[0] < 2 * len(frame)


def test_a_sample_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gz(*LINES))
    file = reader(path)
    found = drain(file)
    path.write_bytes(gz(*reversed(LINES)))
    with pytest.raises(SourceChanged):
        file.fetch(found.locators[3])


def test_a_replaced_file_begins_a_new_generation(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gz(*LINES))
    file = reader(path)
    drain(file)
    path.write_bytes(gz(*LINES[:2]))
    found = drain(file)
    assert (found.generation, len(found.records)) == (1, 2)


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
def test_what_stands_before_the_damage_is_kept_and_the_damage_told(
    tmp_path: Path, pack: Callable[..., bytes], suffix: str
) -> None:
    path = tmp_path / f"rollout_data_rank_0.jsonl{suffix}"
    path.write_bytes(pack(*LINES[:4]) + b"no such thing")
    snapshot = store(tmp_path).snapshot
    assert snapshot.samples == 4
    assert len(snapshot.problems) == 1
    assert path.name in snapshot.problems[0]
    assert "damaged near byte" in snapshot.problems[0]


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
def test_a_bomb_is_a_bad_line_and_never_held(tmp_path: Path, pack: Callable[..., bytes], suffix: str) -> None:
    """64 MB of blanks in a few KB: with lines of at most 1 MB, reading ends after four of them."""
    path = tmp_path / f"rollout_data_rank_0.jsonl{suffix}"
    path.write_bytes(pack(LINES[0], b" " * (64 << 20) + b"\n", LINES[1]))
    index = store(tmp_path, line_bytes=1 << 20)
    snapshot, reader = index.snapshot, index.reader(path.name)
    assert snapshot.samples == 1
    assert [(bad.line, bad.offset) for bad in snapshot.bad_lines] == [(2, len(LINES[0]))]
    assert (
        "when decompressed, far more than in any log; the limit is 1,048,576" in snapshot.bad_lines[0].reason
    )
    assert snapshot.problems == (
        f"{path.name}: a line is far too long when decompressed; what comes before is kept",
    )
    assert snapshot.progress.caught_up
    assert isinstance(reader, CompressedFile)
    assert reader.tail.decompressor.plain_offset < 6 << 20


def test_looking_at_a_bomb_to_tell_what_it_is_holds_little(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(zst(b" " * (256 << 20)))
    tracemalloc.start()
    Directory(tmp_path).runs()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 160 << 20


def test_a_frame_that_asks_for_much_memory_is_damage(tmp_path: Path) -> None:
    """A window of 2 GB, as ``zstd --ultra --long=31`` writes it."""
    path = tmp_path / "rollout_data_rank_0.jsonl.zst"
    window = zstandard.ZstdCompressionParameters(window_log=31, compression_level=1, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=window).compressobj()
    path.write_bytes(packer.compress(b"".join(LINES)) + packer.flush())
    with pytest.raises(SourceDamaged, match="too much memory"):
        drain(reader(path))


@pytest.mark.parametrize("budget", [1 << 10, BUDGET])
def test_a_line_that_is_too_long_is_skipped_and_the_next_one_read(tmp_path: Path, budget: int) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gz(LINES[0], line(7, prompt="p" * 5000), LINES[1]))
    found = drain(reader(path, 4000), budget)
    assert [place.line for place in found.locators] == [1, 3]
    assert [(bad.line, bad.offset) for bad in found.bad] == [(2, len(LINES[0]))]


def test_a_copy_being_compressed_does_not_count_twice(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", *LINES)
    (tmp_path / "x.jsonl.gz").write_bytes(gz(*LINES)[:-5])
    assert store(tmp_path).snapshot.files == ("x.jsonl",)


def test_when_the_plain_file_goes_its_compressed_copy_takes_its_place(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", *LINES)
    index = store(tmp_path)
    (tmp_path / "x.jsonl.gz").write_bytes(gz(*LINES))
    (tmp_path / "x.jsonl").unlink()
    index.rescan()
    while index.read():
        pass
    assert index.snapshot.samples == len(LINES)
    assert index.snapshot.uid(int(index.snapshot.alive_rows[0])) == "x.jsonl.gz:0"


def test_members_may_be_padded_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gz(LINES[0]) + bytes(512) + gz(LINES[1]) + bytes(7))
    assert len(drain(reader(path)).records) == 2


def test_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    packed = bytearray(gz(*LINES[:1]))
    packed[-8:-4] = (zlib.crc32(LINES[0]) ^ 1).to_bytes(4, "little")
    path.write_bytes(packed)
    with pytest.raises(SourceDamaged, match="incorrect data check"):
        drain(reader(path))


@pytest.mark.parametrize(("pack", "suffix"), PACKERS)
def test_a_compressed_run_opens_again_from_its_index(
    tmp_path: Path, pack: Callable[..., bytes], suffix: str
) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    path.write_bytes(pack(b"".join(LINES[:20]), b"".join(LINES[20:])))
    store(tmp_path).save(last=True)
    again = store(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (0, len(LINES))
    sample = fetch(again, again.view, again.snapshot.row(f"{path.name}:{offsets(LINES)[25]}"))
    assert (sample.step, sample.line) == (4, 26)


def test_a_new_frame_is_read_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(zst(*LINES[:4]))
    store(tmp_path).save(last=True)
    append(path, zst(LINES[4]))
    again = store(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (len(LINES[4]), 5)
    assert again.snapshot.metadata("line").tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("cut", [5, 1])
def test_a_log_in_the_middle_of_a_frame_or_a_line_is_read_from_its_beginning(
    tmp_path: Path, cut: int
) -> None:
    """Reading cannot resume there, so the saved position is not used."""
    path, whole = tmp_path / "x.jsonl.gz", gz(*LINES)
    path.write_bytes(whole[:-cut] if cut == 5 else gz(b"".join(LINES)[:-1]))
    store(tmp_path).save(last=True)
    append(path, whole[-cut:] if cut == 5 else gz(b"\n"))
    again = store(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (len(b"".join(LINES)), len(LINES))


def test_what_the_recorder_compresses_is_read_while_it_writes(tmp_path: Path) -> None:
    seen = []
    with RolloutWriter(tmp_path, compress=True) as writer:
        index = RunIndex(tmp_path, "run")
        for step in (1, 2, 3):
            writer.write(step=step, prompt="p", response=f"r{step}", reward=step / 2)
            assert writer.flush()
            index.rescan()
            while index.read():
                pass
            seen.append(index.snapshot.number("reward").tolist())
    assert seen == [[0.5], [0.5, 1.0], [0.5, 1.0, 1.5]]
    assert fetch(index, index.view, 1).response == "r2"


def test_a_line_that_is_skipped_makes_no_bomb_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "rollout_data_rank_0.jsonl.zst"
    path.write_bytes(zst(LINES[0], b" " * (40 << 20) + b"\n", LINES[1]))
    assert store(tmp_path, line_bytes=32 << 20).snapshot.samples == 2
