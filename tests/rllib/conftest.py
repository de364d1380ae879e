"""Fixtures of the tests with RLlib: a Ray with enough CPUs, and algorithms that are stopped after their test."""

import functools
import weakref

import pytest


@pytest.fixture(scope="module", autouse=True)
def _cluster(cluster):
    """Start with enough CPUs or without Ray, and copy the environments of `failing_envs` to remote runners."""
    import failing_envs
    import ray

    ray.cloudpickle.register_pickle_by_value(failing_envs)


@pytest.fixture(autouse=True)
def _stopped_algorithms(monkeypatch):
    """Stop the algorithms that a test has built."""
    from ray.rllib.algorithms import Algorithm

    built = weakref.WeakSet()
    initialize = Algorithm.__init__

    @functools.wraps(initialize)
    def build(self, *arguments, **options):
        initialize(self, *arguments, **options)
        built.add(self)

    monkeypatch.setattr(Algorithm, "__init__", build)
    yield
    for algorithm in list(built):
        algorithm.stop()
