"""One file of arrays: what was written comes back, or is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from whimbrel.storage.array_file import FORMAT_VERSION, open_file, write_file
from whimbrel.storage.errors import CorruptIndex, ForeignFile, MissingIndex, NewerFormat, SavedIndexError

ARRAYS = {
    "keys": np.arange(5, dtype=np.int64) - 2,
    "empty": np.zeros((0, 3), np.int32),
    "grid": np.arange(12, dtype=np.uint16).reshape(3, 4),
    "flags": np.array([True, False, True]),
    "weights": np.array([0.5, -0.0, np.inf, np.nan]),
}
META = {"attributes": ["price", "größe"], "huge": 10**30, "nested": {"a": [1, None, True, 0.1]}}


def same_arrays(found: dict, expected: dict) -> bool:
    return sorted(found) == sorted(expected) and all(
        found[name].dtype == array.dtype
        and found[name].shape == array.shape
        and found[name].tobytes() == array.tobytes()
        for name, array in expected.items()
    )


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "file", ARRAYS, META)
    for verify in (True, False):
        arrays, meta = open_file(tmp_path / "file", verify)
        assert same_arrays(arrays, ARRAYS) and meta == META
        assert not any(array.flags.writeable for array in arrays.values() if array.size)
        assert all(array.ctypes.data % 64 == 0 for array in arrays.values() if array.size)
    assert write_file(tmp_path / "again", ARRAYS, META) == digest
    assert write_file(tmp_path / "other", ARRAYS, {**META, "huge": 1}) != digest
    assert write_file(tmp_path / "other", {**ARRAYS, "keys": ARRAYS["keys"][::-1]}, META) != digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "file", "other"]


@given(
    st.dictionaries(
        st.text(max_size=5),
        arrays_of.arrays(
            st.one_of(arrays_of.integer_dtypes(), arrays_of.unsigned_integer_dtypes(), arrays_of.floating_dtypes()),
            arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        ),
        max_size=4,
    )
)
def test_any_arrays_of_numbers_come_back(tmp_path_factory: pytest.TempPathFactory, arrays: dict) -> None:
    path = tmp_path_factory.mktemp("file") / "file"
    write_file(path, arrays, {})
    found, _ = open_file(path)
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        assert np.array_equal(found[name], array, equal_nan=True) and found[name].shape == array.shape


def test_arrays_of_several_blocks_are_checked_in_every_block(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, {"big": np.arange(3_000_001, dtype=np.int64), "small": np.arange(3)}, {})
    arrays, _ = open_file(path)
    assert np.array_equal(arrays["big"], np.arange(3_000_001))
    content = bytearray(path.read_bytes())
    for at in range(1000, len(content), 4_000_000):
        content[at] ^= 1
        path.write_bytes(content)
        with pytest.raises(CorruptIndex):
            open_file(path)
        content[at] ^= 1


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Expected an array of numbers or booleans, but got object - at names"):
        write_file(tmp_path / "file", {"names": np.array(["a", None], object)}, {})
    assert not list(tmp_path.iterdir())


def test_a_change_of_any_byte_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, ARRAYS, META)
    content = path.read_bytes()
    for at in range(len(content)):
        mask = 0x80 if at % 2 else 0x01
        path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
        with pytest.raises(SavedIndexError):
            open_file(path)


def test_two_words_that_change_places_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, {"a": np.arange(8, dtype=np.int64)}, {})
    content = path.read_bytes()
    start = len(content) - 64
    for at in range(start, len(content) - 8, 8):
        path.write_bytes(content[:at] + content[at + 8 : at + 16] + content[at : at + 8] + content[at + 16 :])
        with pytest.raises(CorruptIndex, match="the array 'a' is damaged"):
            open_file(path)


def test_a_file_of_any_other_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, ARRAYS, META)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CorruptIndex):
            open_file(path, verify=length % 2 == 0)
    path.write_bytes(content + b"\0")
    with pytest.raises(CorruptIndex, match="bytes instead of"):
        open_file(path, verify=False)


@pytest.mark.parametrize("content", [b"PAR1" + b"\0" * 100, b"{}", b"W", b"WHIMBREm" + b"\0" * 100])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CorruptIndex if content == b"W" else ForeignFile):
        open_file(path)
    with pytest.raises(ForeignFile, match="a directory"):
        open_file(tmp_path)
    with pytest.raises(MissingIndex):
        open_file(tmp_path / "nothing")


def test_a_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, ARRAYS, META)
    content = path.read_bytes()
    path.write_bytes(content[:8] + (FORMAT_VERSION + 1).to_bytes(4, "little") + content[12:])
    with pytest.raises(NewerFormat) as error:
        open_file(path)
    assert (error.value.version, error.value.supported) == (FORMAT_VERSION + 1, FORMAT_VERSION)
    assert "Expected format version 1 or older, but got 2" in str(error.value)


def test_private_arrays_are_changed_in_this_mapping_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, ARRAYS, META)
    mine, _ = open_file(path, private=True)
    mine["keys"][:] = 7
    assert same_arrays(open_file(path)[0], ARRAYS) and mine["keys"].tolist() == [7] * 5
