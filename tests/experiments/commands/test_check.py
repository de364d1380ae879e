"""The command that checks a user's part or buffer, and the checks of first draws in a run."""

import re

import numpy as np
import pytest
from builders import make
from test_own_parts import as_a_module

from interreplay.buffer.catalogue import make_buffer
from interreplay.buffer.part_checks import CHECKED_DRAWS
from interreplay.diagnostics.contract import CHECKS
from interreplay.errors import PartError
from interreplay.experiments.commands import check, train
from interreplay.selection import Uniform
from tests.experiments.commands.command_lines import rejects, users_folder

BROKEN = """
import sys

import torch

from interreplay import ReplayBuffer
from interreplay.neighborhood import Neighborhood, Neighbors
from interreplay.selection import Uniform
from interreplay.synthesis import Synthesized, Synthesizer

class Selector(Uniform):
    def change(self, slots, probabilities):
        return slots, probabilities

    def select(self, stored, size, rng):
        return self.change(*super().select(stored, size, rng))

def selector(name, change):
    return type(name, (Selector,), {"__module__": __name__, "change": lambda self, *given: change(*given)})

Short = selector("Short", lambda slots, probabilities: (slots[1:], probabilities[1:]))
NoPair = selector("NoPair", lambda slots, probabilities: slots)
Beyond = selector("Beyond", lambda slots, probabilities: (slots + 1_000, probabilities))
Int32 = selector("Int32", lambda slots, probabilities: (slots.int(), probabilities))
NotANumber = selector("NotANumber", lambda slots, probabilities: (slots, probabilities * torch.nan))
Biased = selector("Biased", lambda slots, probabilities: (slots // 2, probabilities))
Unseeded = selector("Unseeded", lambda slots, probabilities: (slots[torch.randperm(len(slots))], probabilities))
Quits = selector("Quits", lambda slots, probabilities: sys.exit(3))

def weighing(name, weights):
    return type(name, (Uniform,), {"__module__": __name__, "weights": lambda self, stored, given: weights(given)})

ColumnWeights = weighing("ColumnWeights", lambda probabilities: torch.ones(len(probabilities), 1))
NegativeWeights = weighing("NegativeWeights", lambda probabilities: torch.full_like(probabilities, -1))

class DrawsPairs(Uniform):
    draw = Uniform.select

class Around(Uniform):
    def __init__(self):
        self.inner = Beyond()

    def select(self, stored, size, rng):
        return self.inner.select(stored, size, rng)

class Forgetful(Uniform):
    draws = 0

    def select(self, stored, size, rng):
        self.draws += 1
        slots, probabilities = super().select(stored, size, rng)
        return (slots + self.draws) % len(stored), probabilities

def neighborhood(name, gather):
    members = {"__module__": __name__, "gather": lambda self, storage, slots, rng: gather(storage, slots.unsqueeze(1))}
    return type(name, (Neighborhood,), members)

Itself = neighborhood("Itself", lambda storage, slots: Neighbors(slots))
Negative = neighborhood("Negative", lambda storage, slots: Neighbors(torch.full_like(slots, -5)))
FewerRows = neighborhood("FewerRows", lambda storage, slots: Neighbors(torch.full_like(slots, -2), storage[slots[1:]]))
BareSlots = neighborhood("BareSlots", lambda storage, slots: slots)

class Made(Synthesizer):
    uses_neighbors = False

    def __call__(self, anchors, neighbors, rng):
        return self.make(anchors)

def synthesizer(name, make):
    return type(name, (Made,), {"__module__": __name__, "make": lambda self, rows: make(rows)})

BareRows = synthesizer("BareRows", lambda rows: rows)
Double = synthesizer("Double", lambda rows: Synthesized(rows.replace(rewards=rows.rewards.double())))
MixOf2 = synthesizer("MixOf2", lambda rows: Synthesized(rows, torch.full((len(rows),), 2.0)))
Half = synthesizer("Half", lambda rows: Synthesized(rows[: len(rows) // 2]))
Unpredicted = synthesizer("Unpredicted", lambda rows: Synthesized(rows, variances=rows.obs * torch.nan))
Infinite = synthesizer("Infinite", lambda rows: Synthesized(rows.replace(rewards=rows.rewards / 0)))

class Buffer(ReplayBuffer):
    def sample(self, size):
        return super().sample(size + 1)

def function():
    pass
"""
WRONG = [
    ("selector", "Short", r"Short returned slots of shape \(15,\) of torch.int64; expected .* shape \(16,\)"),
    ("selector", "NoPair", "NoPair returned a Tensor; expected tuple of two, slots and probabilities"),
    ("selector", "Beyond", r"Beyond returned slots with the value 1\d\d\d; expected 0 to 49"),
    ("selector", "Int32", "Int32 returned slots of shape .* of torch.int32; expected .* torch.int64"),
    ("selector", "NotANumber", "NotANumber returned probabilities with the value nan; expected 0.0 to 1.0"),
    ("selector", "DrawsPairs", "DrawsPairs returned a tuple from draw; expected a Draw"),
    ("selector", "ColumnWeights", r"ColumnWeights returned weights of shape \(16, 1\) .* shape \(16,\)"),
    ("selector", "NegativeWeights", "NegativeWeights returned weights with the value -1.0; expected 0.0 to inf"),
    ("selector", "Around", "Around returned slots with the value 1"),
    ("neighborhood", "Itself", "Itself returned an anchor as its own neighbor"),
    ("neighborhood", "Negative", "Negative returned neighbors' slots with the value -5; expected -1 to 49"),
    ("neighborhood", "FewerRows", r"FewerRows returned neighbors' .* of shape \(15, .*expected .* shape \(16, 1"),
    ("neighborhood", "BareSlots", r"BareSlots returned a Tensor; expected Neighbors\(slots\)"),
    ("synthesizer", "BareRows", "BareRows returned a Transitions; expected Synthesized"),
    ("synthesizer", "Double", "Double returned rewards of shape .* of torch.float64; expected .* of torch.float32"),
    ("synthesizer", "MixOf2", "MixOf2 returned mix with the value 2.0; expected 0.0 to 1.0"),
    ("synthesizer", "Half", r"Half returned .* of shape \(8.*\) of .*; expected a tensor of shape \(16"),
    ("synthesizer", "Unpredicted", "Unpredicted returned variances with the value nan; expected 0.0 to inf"),
    ("synthesizer", "Infinite", "Infinite returned rewards with non-finite values"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with parts that keep the contract and parts that break it."""
    yield from users_folder(tmp_path, monkeypatch, my_parts=as_a_module(), broken_parts=BROKEN)


def with_part(kind, name):
    parts = {kind: {"type": f"broken_parts:{name}"}} | check.COMPLETED[kind]()
    buffer = make_buffer("ReplayBuffer", {"seed": 0}, capacity=100, **parts)
    buffer.add(make(50))
    return buffer


def test_a_wrong_answer_is_one_line(capsys):
    for kind, name, message in WRONG:
        with pytest.raises(PartError, match=message) as caught:
            with_part(kind, name).sample(16)
        assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert check.main([f"broken_parts:{WRONG[0][1]}"]) == 1
    assert f"{WRONG[0][1]} returned" in capsys.readouterr().out


def test_only_the_first_draws_are_checked():
    buffer = with_part("selector", "Selector")
    for _ in range(CHECKED_DRAWS):
        buffer.sample(16)
    buffer.selector.change = lambda slots, probabilities: (slots, probabilities * 3)
    buffer.sample(16)


def test_parts_of_the_package_are_not_checked(monkeypatch):
    buffer = make_buffer("NMER", {"seed": 0}, capacity=100)
    buffer.add(make(50))
    monkeypatch.setattr(Uniform, "select", lambda self, stored, size, rng: ([0] * size, np.ones(size)))
    with pytest.raises(AttributeError, match="has no attribute 'numpy'"):
        buffer.sample(16)


@pytest.mark.usefixtures("cluster")
def test_a_run_ends_with_one_line(capsys):
    given = "--env Pendulum-v1 --learning_starts 20 --train_batch_size 16 --hiddens 16 --total_env_steps 40 --quiet"
    rejects(capsys, train.main, [*given.split(), "--selector", "broken_parts:Short"], " returned ")


@pytest.mark.slow
def test_the_parts_of_the_page_pass(capsys):
    parts = ("Recent share=.2", "Contemporary reach=20", "Mirror signs=[1,-1,1]", "Timely")
    for words in parts:
        assert check.main(f"my_parts:{words}".split()) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(CHECKS) + 1 and all(line.startswith("pass  ") for line in lines[:-1])
        assert lines[-1].endswith(f"{len(CHECKS)} of {len(CHECKS)} checks passed")


@pytest.mark.slow
def test_a_part_that_breaks_the_contract_fails(capsys):
    for name, failing in {
        "Unseeded": ["Two buffers with one seed", "The state of an empty buffer"],
        "Biased": ["Each row is drawn as often"],
        "Forgetful": ["A state gives the same batches", "A state that was saved to disk"],
        "Quits": ["Only stored rows are drawn"],
        "Buffer": ["Batches have the shapes"],
    }.items():
        assert check.main([f"broken_parts:{name}"]) == 1
        out = capsys.readouterr().out
        for title in failing:
            (line,) = [line for line in out.splitlines() if title in line]
            assert re.match(r"FAIL  .*: .+", line)


def test_a_wrong_name_is_one_line(capsys):
    for words, parts in {
        "broken_parts:function": ["function is not a subclass of Selector or Neighborhood or Synthesizer"],
        "Recent": ["class 'Recent' has no module; expected a name such as my_module:MySelector"],
        "my_parts:Recent share=7": ["share is 7; expected more than 0"],
        "replay_buffers:NMER kk=5": ["'kk'", "did you mean k?"],
        "replay_buffers:NMER k=0": ["replay_buffers:NMER: k is 0"],
        "replay_buffers:NMER capacity=5": ["capacity=5: the checks set capacity; leave it out"],
        "my_parts:Recent share": ["must look like k=10, got 'share'"],
    }.items():
        rejects(capsys, check.main, words.split(), *parts)
