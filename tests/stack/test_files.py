import os
import stat
from pathlib import Path

import pytest

from runtime.stack.files import DataFolder, read_or_create_secret, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_readable_by_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "ready.json", "{}")
    finally:
        os.umask(before)
    assert mode(tmp_path / "ready.json") == 0o600


def test_a_private_file_replaces_an_open_one_and_leaves_nothing_aside(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    first = read_or_create_secret(tmp_path / "key", "one")
    assert first == read_or_create_secret(tmp_path / "key", "two") == "one"
    assert mode(tmp_path / "key") == 0o600


def test_the_data_folders_hide_their_content(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    assert mode(folder.root) & 0o066 == 0
    assert {mode(path) for path in folder.root.iterdir()} == {0o700}
