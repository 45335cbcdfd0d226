"""The file of `--env-file` (api.md 1.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from oxbrook import _envfile

VALUES = [
    ("A=1", "1"),
    ("A=", ""),
    ("export A=1", "1"),
    ("  A = 1  ", "1"),
    ("A=one two", "one two"),
    ("A=one #two", "one"),
    ("A=one#two", "one#two"),
    ("A=#two", "#two"),
    ("A= #two", ""),
    ("A='one #two'", "one #two"),
    (r"A='a\n'", r"a\n"),
    ("A='a' # why", "a"),
    (r'A="a\nb\tc\"d\\e"', 'a\nb\tc"d\\e'),
    (r'A="a\qb"', r"a\qb"),
    ('A="a" # why', "a"),
    ('A="$HOME ${HOME}"', "$HOME ${HOME}"),
    ("A=$HOME", "$HOME"),
    ("A=a=b", "a=b"),
    ("A=größe", "größe"),
    ("A=1\r", "1"),
]
BAD = [
    ("A", "expected NAME=value"),
    ("=1", "expected NAME=value"),
    ("1A=1", "expected NAME=value"),
    ("A B=1", "expected NAME=value"),
    ("A-B=1", "expected NAME=value"),
    ("A='secret", "missing closing quote"),
    ('A="secret', "missing closing quote"),
    (r'A="secret\"', "missing closing quote"),
    ("A='secret' more", "unexpected text after the closing quote"),
    ('A="secret"more', "unexpected text after the closing quote"),
    ("A=sec\0ret", "NUL"),
]


def write(directory: Path, text: str) -> str:
    path = directory / "some.env"
    path.write_bytes(text.encode())
    return str(path)


@pytest.mark.parametrize(("line", "value"), VALUES)
def test_a_line_gives_its_value(tmp_path: Path, line: str, value: str) -> None:
    path = write(tmp_path, f"# first\n\n   \n  # indented\n{line}\nLAST=end")
    assert _envfile.read(path) == {"A": value, "LAST": "end"}


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_named_and_its_text_is_not_shown(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path, f"OK=1\n{line}\n")
    with pytest.raises(_envfile.EnvFileError) as caught:
        _envfile.read(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert reason in str(caught.value)
    assert "sec" not in str(caught.value).replace(path, "")


def test_a_missing_file_and_one_that_is_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(_envfile.EnvFileError, match=r"missing\.env: No such file"):
        _envfile.read(str(tmp_path / "missing.env"))
    path = tmp_path / "binary.env"
    path.write_bytes(b"A=\xff\xfe")
    with pytest.raises(_envfile.EnvFileError, match=r"binary\.env: not UTF-8"):
        _envfile.read(str(path))


def test_variables_that_exist_are_left_alone_and_the_last_line_of_a_name_counts(tmp_path: Path) -> None:
    environ = {"A": "before", "B": ""}
    _envfile.load(write(tmp_path, "A=file\nB=file\nC=1\nC=2\n"), environ)
    assert environ == {"A": "before", "B": "", "C": "2"}


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert _envfile.read(write(tmp_path, "\ufeffA=1\n")) == {"A": "1"}
