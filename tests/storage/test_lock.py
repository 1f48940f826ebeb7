"""Locks exclude other processes, and end with the process that holds them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from whimbrel.storage.errors import Locked
from whimbrel.storage.lock import OwnerLock, locked


def test_one_owner_at_a_time_and_others_learn_its_process_id(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = OwnerLock(path)
    with pytest.raises(Locked, match=f"process {os.getpid()} holds the lock") as error:
        OwnerLock(path)
    assert error.value.owner == os.getpid() and error.value.path == str(path)
    lock.release()
    lock.release()
    assert not lock.is_held
    OwnerLock(path).release()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = "import os, sys; from pathlib import Path; from whimbrel.storage.lock import OwnerLock; "
    code += "lock = OwnerLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        with pytest.raises(Locked) as error:
            OwnerLock(path)
        assert error.value.owner == process.pid
        process.kill()
        process.wait()
    OwnerLock(path).release()


def test_a_child_that_inherits_the_file_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = OwnerLock(path)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[lock.descriptor]) as process:
        lock.release()
        with pytest.raises(ValueError, match="it was released"):
            _ = lock.descriptor
        with pytest.raises(Locked):
            OwnerLock(path)
        process.communicate()
    OwnerLock(path).release()


def test_a_forked_child_holds_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = OwnerLock(path)
    child = os.fork()
    if child == 0:
        os._exit(1 if lock.is_held else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lock.is_held
    lock.release()


@pytest.mark.parametrize("name", ["lock", "."])
def test_shared_locks_admit_each_other_and_exclude_an_owner(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    done: list[str] = []

    def write() -> None:
        with locked(path):
            done.append("written")

    with locked(path, shared=True), locked(path, shared=True):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(0.05)
        done.append("read")
    thread.join()
    assert done == ["read", "written"]
