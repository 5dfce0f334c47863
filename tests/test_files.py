"""Files written whole or not at all, whatever writes them."""

import errno
import os

import pytest

from child_process import run_in_child
from unbag._files import check_place, whole_file, write_whole


def test_an_error_leaves_what_was_there(tmp_path):
    path = write_whole(tmp_path / "note.txt", "as it was, ä")

    def fail():
        with whole_file(path) as file:
            file.write(b"half of")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fail()
    assert path.read_bytes() == "as it was, ä".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synced_before_and_after_the_move(tmp_path, monkeypatch):
    path, steps = tmp_path / "note.txt", []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (steps.append(n), r(*a))[1])
    write_whole(path, b"new")
    assert steps == ["fsync", "replace", "fsync"]


def test_a_link_stays_a_link_and_rights_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_errors_of_the_system_name_the_file(tmp_path):
    path = tmp_path / "note.txt"
    sentence = "note.txt could not be saved, and nothing was changed: No space left"
    with pytest.raises(OSError, match=sentence), whole_file(path):
        raise OSError(errno.ENOSPC, "No space left")
    with pytest.raises(OSError, match="is a folder; give the name of a file in it"):
        write_whole(tmp_path, "x")
    with pytest.raises(OSError, match=r"the folder of .*note\.txt does not exist"):
        check_place(tmp_path / "nowhere" / "note.txt")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_writers_leave_a_whole_file_at_any_time(tmp_path):
    path = write_whole(tmp_path / "note.txt", "a" * 100_000)

    def write(letter):
        for _ in range(40):
            write_whole(path, letter * 100_000)

    found = set()
    run_in_child(lambda: write("a"), lambda _: (write("b"), found.add(path.read_text())))
    assert found | {path.read_text()} <= {"a" * 100_000, "b" * 100_000}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_another_program_holds_stays_as_it_is(tmp_path, monkeypatch):
    """Windows refuses to replace a file that is open somewhere."""
    path = write_whole(tmp_path / "note.txt", "old")

    def in_use(*_):
        raise PermissionError(errno.EACCES, "The process cannot access the file")

    monkeypatch.setattr(os, "replace", in_use)
    with pytest.raises(OSError, match="nothing was changed: The process cannot access"):
        write_whole(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["note.txt"]
