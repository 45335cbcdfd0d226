"""The file of `--env-file`: one `NAME=value` a line.

Invariant: a value never reaches an error text, only the file and the line number do (the file holds secrets).
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

ASSIGNMENT = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=(.*)", re.DOTALL)
DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
AFTER_VALUE = re.compile(r"[ \t]*(?:#.*)?", re.DOTALL)


class EnvFileError(ValueError):
    """The file cannot be read, or a line of it is malformed; the text names file and line."""


def load(path: str, environ: MutableMapping[str, str]) -> None:
    """Put the file's variables into `environ`; those that exist there already are left alone."""
    for name, value in read(path).items():
        environ.setdefault(name, value)


def read(path: str) -> dict[str, str]:
    """Return the variables of a file; of a name given twice the last counts.

    Raises: EnvFileError.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise EnvFileError(f"env file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise EnvFileError(f"env file {path}: not UTF-8 text") from None
    variables: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = ASSIGNMENT.fullmatch(line)
        if match is None:
            raise EnvFileError(f"env file {path}, line {number}: expected NAME=value")
        try:
            variables[match[1]] = parse_value(match[2])
        except ValueError as error:
            raise EnvFileError(f"env file {path}, line {number}: {error}") from None
    return variables


def parse_value(text: str) -> str:
    """Return the value written after the `=` of a line."""
    if "\0" in text:
        raise ValueError("a value cannot hold NUL")
    unquoted = re.split(r"[ \t]#", text, maxsplit=1)[0].strip()
    text = text.lstrip()
    if text.startswith("'"):
        end = text.find("'", 1)
        if end < 0:
            raise ValueError("missing closing quote")
        value, rest = text[1:end], text[end + 1 :]
    elif text.startswith('"'):
        match = DOUBLE_QUOTED.match(text)
        if match is None:
            raise ValueError("missing closing quote")
        # An escape that is none of the four stays as written.
        value = ESCAPE.sub(lambda found: ESCAPES.get(found[1], found[0]), match[1])
        rest = text[match.end() :]
    else:
        return unquoted
    if AFTER_VALUE.fullmatch(rest) is None:
        raise ValueError("unexpected text after the closing quote")
    return value
