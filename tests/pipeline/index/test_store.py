from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from whimbrel import Index
from whimbrel.pipeline.errors import BadManifest, MissingVersion, RemotePath, VersionTaken
from whimbrel.pipeline.index.store import IndexStore, Shard, VersionManifest, local_path
from whimbrel.pipeline.index.workers import open_shard, open_version
from whimbrel.pipeline.stages.match.match import choose_plan
from whimbrel.storage.errors import CorruptIndex


def manifest(version: int, *shards: Shard, rejects: tuple[str, ...] = ()) -> VersionManifest:
    return VersionManifest(
        version=version,
        parent=version - 1 or None,
        kind="int64",
        buckets=4,
        shards=shards,
        attributes=("a",),
        count=sum(shard.count for shard in shards),
        bytes=sum(shard.bytes for shard in shards),
        rejects=rejects,
    )


def make_shard(store: IndexStore, bucket: int, *ids: int) -> Shard:
    index = Index()
    index.add_many([(id, f"a = {id}") for id in ids])
    folder = store.scratch()
    index.save(folder)
    name, size = store.adopt(folder)
    return Shard(bucket, name, len(index), size)


def test_versions_are_numbered_and_never_overwritten(tmp_path: Path) -> None:
    store = IndexStore(tmp_path / "new" / "store")
    assert store.versions() == []
    shard = make_shard(store, 0, 1, 2)
    assert store.publish(manifest(1, shard)) == 1
    assert store.publish(manifest(2)) == 2
    assert (store.versions(), store.newest()) == ([1, 2], 2)
    with pytest.raises(VersionTaken, match="version 1 to be free") as raised:
        store.publish(manifest(1))
    assert raised.value.version == 1
    read = store.manifest(1)
    assert read == msgspec.structs.replace(manifest(1, shard), created=read.created)
    assert read.created and store.manifest().version == 2
    assert [path.name for path in (store.path / "versions").iterdir() if path.suffix == ".tmp"] == []


def test_of_jobs_that_publish_the_same_version_one_wins(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    won: list[int] = []

    def publish(count: int) -> None:
        try:
            store.publish(msgspec.structs.replace(manifest(1), count=count))
            won.append(count)
        except VersionTaken:
            pass

    threads = [threading.Thread(target=publish, args=(count,)) for count in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and store.manifest(1).count == won[0]


def test_equal_content_has_one_name(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    index = Index()
    index.add(1, "a = 1")
    folders = [store.scratch(), store.scratch()]
    for folder in folders:
        index.save(folder)
    (first, size), (second, _) = (store.adopt(folder) for folder in folders)
    assert first == second
    assert size == sum(file.stat().st_size for file in store.shard_path(first).iterdir() if file.name != "MANIFEST")
    assert [path.name for path in (tmp_path / "shards").iterdir()] == [first]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda text: b"", "it is not one"),
        (lambda text: text[:-20], "it is not one"),
        (lambda text: b"\xff\xfe", "it is not one"),
        (lambda text: text.replace(b'"count":0', b'"count":9'), "its checksum is wrong"),
        (lambda text: text.replace(b"whimbrel index version", b"something"), "of something else, 'something'"),
        (lambda text: text.replace(b'"version":1,"checksum"', b'"version":2,"checksum"'), "newer than 1"),
    ],
)
def test_a_damaged_or_foreign_description_is_refused(tmp_path: Path, damage: object, problem: str) -> None:
    store = IndexStore(tmp_path)
    store.publish(manifest(1))
    path = store.version_path(1)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(BadManifest, match=f"{problem}.* - at {path}") as raised:
        store.manifest(1)
    assert raised.value.path == str(path)


def test_a_description_under_another_number_is_refused(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    store.publish(manifest(1))
    store.version_path(1).rename(store.version_path(5))
    with pytest.raises(BadManifest, match="it describes version 1"):
        store.manifest(5)
    assert json.loads(store.version_path(5).read_bytes())["manifest"]["version"] == 1


def test_a_missing_version_names_those_that_are_there(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    with pytest.raises(MissingVersion, match="a compiled index, but there is none"):
        store.manifest()
    for number in range(1, 8):
        store.publish(manifest(number))
    with pytest.raises(MissingVersion, match=r"there are \.\.\., 3, 4, 5, 6, 7 - at") as raised:
        store.manifest(9)
    assert raised.value.available == tuple(range(1, 8))


def test_collect_keeps_the_newest_and_what_is_asked_for(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    shards = [make_shard(store, 0, number) for number in range(4)]
    rejects = [store.rejects_path(f"{number}.parquet") for number in range(4)]
    rejects[0].parent.mkdir()
    for number, shard in enumerate(shards):
        rejects[number].touch()
        store.publish(manifest(number + 1, shards[0], shard, rejects=(rejects[number].name,)))
    left = store.scratch()
    held = open_shard(store, shards[2].name)
    assert store.collect([2]) == [1, 3]
    assert store.versions() == [2, 4]
    kept = {shards[0].name, shards[1].name, shards[3].name}
    assert {path.name for path in (tmp_path / "shards").iterdir()} == kept
    assert {path.name for path in rejects[0].parent.iterdir()} == {"1.parquet", "3.parquet"}
    assert not left.exists()
    assert held.match({"a": 2}) == [2]
    assert IndexStore(tmp_path / "empty").collect([]) == []


def test_paths_are_local(tmp_path: Path) -> None:
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    assert local_path(tmp_path) == tmp_path
    assert local_path("x/y").is_absolute()
    with pytest.raises(RemotePath, match="every worker has mounted, but got s3a://bucket/x"):
        local_path("s3a://bucket/x")


def test_shards_stay_open_and_are_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = IndexStore(tmp_path)
    shard = make_shard(store, 0, *range(10))
    store.publish(manifest(1, shard))
    checked = []
    opening = Index.open

    def spy(path: Path, verify: bool = True, timestamps: Iterable[str] | None = None) -> Index:
        checked.append(verify)
        return opening(path, verify, timestamps)

    monkeypatch.setattr(Index, "open", spy)
    _, (first,) = open_version(tmp_path, 1)
    _, (second,) = open_version(tmp_path, 1)
    assert first is second and checked == [True, False]
    other = open_shard(store, shard.name, timestamps=["at"])
    assert other is not first and other.timestamps == {"at"} and checked == [True, False, False]


def test_a_shard_that_changes_after_it_was_verified_is_verified_again(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    shard = make_shard(store, 0, *range(10))
    open_shard(store, shard.name)
    file = next(store.shard_path(shard.name).glob("texts-*"))
    content = bytearray(file.read_bytes())
    content[-65] ^= 4
    file.write_bytes(content)
    with pytest.raises(CorruptIndex, match=file.name):
        open_shard(store, shard.name)


def test_groups_fit_the_budget() -> None:
    shards = [Shard(number, str(number), 1, size) for number, size in enumerate((5, 5, 9, 1, 1, 20))]
    assert choose_plan("auto", shards, 41).groups == ((0, 1, 2, 3, 4, 5),)
    assert choose_plan("auto", shards, 40).name == "shard"
    assert choose_plan("auto", shards, 10).groups == ((0, 1), (2, 3), (4,), (5,))
    assert choose_plan("shard", shards, 100).groups == tuple((number,) for number in range(6))
    assert choose_plan("replicate", shards, 1).groups == ((0, 1, 2, 3, 4, 5),)
    assert choose_plan("shard", [], 1).groups == ((),)
