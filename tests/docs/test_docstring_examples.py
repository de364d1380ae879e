"""Every replay method and every configuration has an example in its docstring, which runs."""

import doctest

import pytest

import replay_buffers
from interreplay import rllib

METHODS = [getattr(replay_buffers, name) for name in replay_buffers.__all__]
CONFIGS = [getattr(rllib, name) for name in rllib.__all__ if name.endswith("Config")]


def examples_of(cls: type) -> doctest.DocTest:
    """Return the example in the docstring of a class, in an empty namespace."""
    text = cls.__doc__ or ""
    return doctest.DocTestParser().get_doctest(text, {}, cls.__name__, None, 0)


def run(cls: type) -> None:
    """Run the example of a class and compare its outputs."""
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples_of(cls), out=report.append)
    assert results.failed == 0, "".join(report)


def test_every_method_and_configuration_has_an_example():
    classes = [*METHODS, *CONFIGS]
    assert len(METHODS) == 22 and len(CONFIGS) >= 21
    for cls in classes:
        assert "Examples:" in cls.__doc__ and any(example.want for example in examples_of(cls).examples), cls.__name__


@pytest.mark.parametrize("method", METHODS, ids=lambda cls: cls.__name__)
def test_the_example_of_a_method_runs(method):
    run(method)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda cls: cls.__name__)
def test_the_example_of_a_configuration_runs(config, cluster):
    run(config)
