"""The default number of loops (api.md 1.5)."""

from __future__ import annotations

import os
import sys

import pytest

from oxbrook import _core, _workers


def test_the_readings_are_all_described() -> None:
    found = _workers.describe()
    assert list(found) == [
        "performance_cores",
        "physical_cores",
        "cgroup_quota",
        "available_cpus",
        "os_cpu_count",
        "detected",
        "default_workers",
    ]
    assert found["os_cpu_count"] == os.cpu_count()
    assert all(value is None or value >= 1 for value in found.values())
    limits = [found[name] for name in list(found)[:4]]
    assert found["detected"] == min(8, *(value for value in limits if value is not None))


def test_the_interpreters_own_count_of_cpus_is_heeded() -> None:
    assert _core.probe(1)["detected"] == 1
    assert _core.probe(1)["available_cpus"] == 1
    assert (_core.probe(64)["detected"] or 0) <= 8


@pytest.mark.parametrize("is_on", [True, False])
def test_the_state_of_the_gil_counts_and_not_the_build(monkeypatch: pytest.MonkeyPatch, is_on: bool) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: is_on, raising=False)
    assert _workers.gil_enabled() is is_on
    expected = 1 if is_on else _workers.describe()["detected"]
    assert _workers.default_workers() == expected


def test_without_a_way_to_ask_the_gil_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    assert _workers.gil_enabled()


@pytest.mark.parametrize(
    ("usable", "threads"), [(1, 1), (2, 1), (3, 1), (4, 1), (7, 1), (8, 2), (16, 4), (64, 4)]
)
def test_io_threads_follow_the_cpus(monkeypatch: pytest.MonkeyPatch, usable: int, threads: int) -> None:
    monkeypatch.setattr(_workers, "readings", lambda: {"usable_cpus": usable})
    assert _workers.default_io_threads() == threads
