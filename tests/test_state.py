"""`State` of api.md 9.3."""

import copy
import pickle
from collections.abc import Callable

import pytest

from oxbrook._state import State


def test_values_are_items_and_attributes() -> None:
    db = object()
    state = State({"db": db, "n": 1})
    assert state.db is db
    assert state["db"] is db
    assert state.get("db") is db
    assert state.get("none", 7) == 7
    assert "db" in state
    assert "none" not in state
    assert (len(state), list(state), dict(state)) == (2, ["db", "n"], {"db": db, "n": 1})
    with pytest.raises(KeyError):
        state["none"]


def test_an_unknown_attribute_lists_the_known_names() -> None:
    with pytest.raises(AttributeError, match=r"'cache'.*db, n"):
        State({"n": 1, "db": 2}).cache  # noqa: B018 - the access is the case
    with pytest.raises(AttributeError, match="none"):
        State().cache  # noqa: B018


WRITES: list[Callable[[State], object]] = [
    lambda state: setattr(state, "db", 2),
    lambda state: setattr(state, "new", 2),
    lambda state: delattr(state, "db"),
    lambda state: state.__setitem__("db", 2),
    lambda state: state.__delitem__("db"),
    lambda state: state.update(a=1),
    lambda state: state.pop("db"),
    lambda state: state.clear(),
    lambda state: setattr(state, "_values", {}),
]


@pytest.mark.parametrize("write", WRITES)
def test_any_write_is_an_attribute_error(write: Callable[[State], object]) -> None:
    state = State({"db": 1})
    with pytest.raises(AttributeError):
        write(state)
    assert dict(state) == {"db": 1}


def test_a_state_is_apart_from_the_mapping_it_was_made_of() -> None:
    values: dict[str, object] = {"a": 1}
    state = State(values)
    values["b"] = 2
    assert dict(state) == {"a": 1}


def test_copies_are_equal() -> None:
    state = State({"a": [1]})
    assert copy.copy(state) is state
    assert copy.deepcopy(state) == state
    assert pickle.loads(pickle.dumps(state)) == state
    assert repr(state) == "State(a)"
