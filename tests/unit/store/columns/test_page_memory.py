"""Arrays share pages with a file that holds their bytes; what they hold does not change."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlpanel.store.columns.page_memory import (
    CAN_MAP,
    allocate,
    map_file,
    mapped_content,
    release_mapped,
    share_mapped,
    trim_heap,
)

needs_mapping = pytest.mark.skipif(not CAN_MAP, reason="only Linux maps a file over an array")
NUMBERS = np.arange(20_000, dtype=np.int64)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "numbers"
    NUMBERS.tofile(path)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


@needs_mapping
def test_whole_pages_become_those_of_the_file(descriptor: int) -> None:
    array = allocate(30_000, np.int64)
    array[: len(NUMBERS)] = NUMBERS
    view = array[:5]
    mapped = map_file(array, descriptor, NUMBERS.nbytes)
    assert mapped == NUMBERS.nbytes // mmap.PAGESIZE * mmap.PAGESIZE < NUMBERS.nbytes
    np.testing.assert_array_equal(array[: len(NUMBERS)], NUMBERS)
    array[len(NUMBERS)] = 7
    release_mapped(array, mapped)
    assert (view.tolist(), array[len(NUMBERS)]) == ([0, 1, 2, 3, 4], 7)


@needs_mapping
def test_the_pages_are_those_of_the_file_and_outlive_its_name(descriptor: int, tmp_path: Path) -> None:
    array = allocate(30_000, np.int64)
    map_file(array, descriptor, NUMBERS.nbytes)
    (tmp_path / "numbers").unlink()
    assert array[:3].tolist() == [0, 1, 2]  # nothing was ever written to the array itself


#: Runs in a process of its own: a hole in the memory would end it.
REFUSED = """
import mmap, os
import numpy as np
from rlpanel.store.columns.page_memory import allocate, map_file, share_mapped
private = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
source, target = np.frombuffer(private, np.int64), allocate(1 << 17, np.int64)
source[:] = target[:] = 5
shared = share_mapped(source, target, 1 << 19)  # the kernel maps no private pages again
mapped = map_file(target, os.open("/proc/self/status", os.O_RDONLY), 1 << 19)  # a file that cannot be mapped
print(shared, mapped, int(source.sum() + target.sum()) == 10 << 17)
"""


@needs_mapping
def test_an_array_stays_whole_if_its_pages_cannot_be_exchanged() -> None:
    done = subprocess.run([sys.executable, "-c", REFUSED], check=True, capture_output=True, text=True)
    assert done.stdout == "0 0 True\n"


@needs_mapping
def test_pages_of_a_file_are_those_of_two_arrays(descriptor: int) -> None:
    array, other = allocate(30_000, np.int64), allocate(60_000, np.int64)
    mapped = map_file(array, descriptor, NUMBERS.nbytes)
    assert share_mapped(array, other, mapped) == mapped
    del array
    np.testing.assert_array_equal(other[: mapped // 8], NUMBERS[: mapped // 8])
    other[mapped // 8] = 3
    assert other[mapped // 8] == 3


@needs_mapping
@pytest.mark.parametrize("size", [8, 4096, 65_536, NUMBERS.nbytes])
def test_content_has_room_to_append(descriptor: int, size: int) -> None:
    saved = mapped_content(descriptor, size)
    np.testing.assert_array_equal(saved.content.view(np.int64), NUMBERS[: size // 8])
    saved.room[size : size + 8] = 1
    np.testing.assert_array_equal(saved.content.view(np.int64), NUMBERS[: size // 8])
    assert len(saved.room) == 2 * size


@pytest.mark.parametrize("rows", [0, 1, 100, 1 << 20])
def test_arrays_of_any_size_are_writable(rows: int) -> None:
    array = allocate(rows, np.float64)
    array[:] = 1.5
    assert (len(array), float(array.sum())) == (rows, 1.5 * rows)
    trim_heap()


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told")
def test_a_server_returns_the_memory_of_freed_arrays() -> None:
    code = """
import numpy as np
from rlpanel.store.columns.page_memory import return_free_memory
return_free_memory()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
np.ones(24 << 17)  # by default glibc keeps blocks of this size from now on
arrays = [np.ones(size) for _ in range(50) for size in (1 << 19, 1 << 14)]
held = resident()
kept = arrays[1::2]  # between the large ones
del arrays
print(held - resident() > 150 << 20)
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "True\n"
