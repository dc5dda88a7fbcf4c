"""Public files, variants of them, and folders without rollouts are opened without an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.sources.discovery.directory import Directory
from tests import plain_reader, unrelated_folders
from tests.known_public import known, tried
from tests.public_runs import judge
from tests.public_variants import variants

_WORST = ("wrong", "crash")
#: Parts of the variants, so that no test takes long.
PARTS = 5


def test_the_expected_numbers_are_those_of_the_files() -> None:
    written = plain_reader.expected()
    assert sorted(written) == sorted(plain_reader.sources())
    assert len(written) >= 60
    for name, source in plain_reader.sources().items():
        found = list(plain_reader.samples(name, source["read"]))
        assert plain_reader.numbers(found) == written[name], name


def test_the_public_files_are_small() -> None:
    files = [path for path in plain_reader.FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 600_000
    names = {path.relative_to(plain_reader.FOLDER).parts[0] for path in files}
    assert names >= set(plain_reader.sources())


def test_each_public_file_names_its_source() -> None:
    for name, source in plain_reader.sources().items():
        assert all(source[key] for key in ("repo", "path", "commit", "licence")), name
        assert source["origin"] in ("writer", "package", "shape"), name


@pytest.mark.parametrize("name", sorted(plain_reader.expected()))
def test_a_public_file_opens_right(name: str) -> None:
    verdict = judge(plain_reader.FOLDER / name, plain_reader.expected()[name])
    _assert_as_known({name: verdict.kind}, {name: verdict.why})


@pytest.mark.parametrize("part", range(PARTS))
def test_variants_of_public_files_open_right(part: int, tmp_path: Path) -> None:
    kinds, why = {}, {}
    for at, variant in enumerate(tried()[part::PARTS]):
        verdict = judge(variant.write(tmp_path / str(at)), variant.expected)
        kinds[variant.name], why[variant.name] = verdict.kind, verdict.why
    _assert_as_known(kinds, why)


def _assert_as_known(kinds: dict[str, str], why: dict[str, str]) -> None:
    """Assert that all open right but the known ones, which do not. A known message must not turn to wrong."""
    table = known()
    worse = {
        name: why[name]
        for name, kind in kinds.items()
        if kind != "right"
        and (name not in table or (kind not in ("message", "command") and table[name].startswith("message")))
    }
    assert not worse
    # These open right by now: `python -m tests.known_public` removes them from the table.
    assert not [name for name, kind in kinds.items() if kind == "right" and name in table]


def test_the_known_ones_exist() -> None:
    names = {*plain_reader.expected(), *(variant.name for variant in tried())}
    assert set(known()) <= names


def test_the_variants_are_the_same_each_time() -> None:
    first, second = variants(300), variants(300)
    assert [variant.name for variant in first] == [variant.name for variant in second]
    assert [variant.expected for variant in first] == [variant.expected for variant in second]
    assert len({variant.name for variant in first}) == 300


@pytest.fixture(scope="module")
def unrelated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return unrelated_folders.write(tmp_path_factory.mktemp("unrelated"))


def test_folders_without_rollouts_are_no_runs(unrelated: list[Path]) -> None:
    assert len(unrelated) >= 200
    runs = {folder.name: [run.name for run in Directory(folder).runs()] for folder in unrelated}
    assert {name: found for name, found in runs.items() if found} == {}


def test_large_files_without_rollouts_are_not_read_whole(tmp_path: Path) -> None:
    """Of four files of 20 MB that are no runs, some megabytes are read, and none when nothing has changed."""
    size = 20 << 20
    entry = b'    "node_modules/%07d": {"version": "1.0.0", "resolved": "x", "license": "MIT"},\n'
    lock = b'{\n  "name": "a",\n  "packages": {\n' + b"".join(entry % at for at in range(size // 80))
    (tmp_path / "package-lock.json").write_bytes(lock + b'    "z": {}\n  }\n}\n')
    annotation = b'  {"id": %07d, "image_id": 1, "bbox": [1.0, 2.0], "score": 0.5},\n'
    (tmp_path / "annotations.json").write_bytes(
        b"[\n" + b"".join(annotation % at for at in range(size // 64)) + b"  {}\n]\n"
    )
    (tmp_path / "sales.csv").write_bytes(
        b"id,amount,text\n" + b"1,2.5,harbor lantern violet\n" * (size // 28)
    )
    (tmp_path / "metrics.jsonl").write_bytes(b'{"loss": 0.5, "lr": 1e-06, "grad_norm": 1.0}\n' * (size // 45))
    before = _read_so_far()
    directory = Directory(tmp_path)
    assert directory.runs() == []
    first = _read_so_far()
    assert directory.runs() == []
    assert first - before < 16 << 20
    # The second time, nothing has changed, so nothing is read.
    assert _read_so_far() - first < 64 << 10


def _read_so_far() -> int:
    """Return the bytes that this process has read from files."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])
