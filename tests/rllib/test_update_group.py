"""Runs in threads of one process with joint updates: each run equals the run alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from builders import make

from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.learning.update import Batch
from interreplay.rllib import DQNConfig, SACConfig
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.update_group import UpdateGroup, move_to_one_device
from tests.rllib.small_runs import config, weights

METHODS = ("Uniform", "NMER", "PER", "DeviceNMER")


def built(seed, method):
    return config(buffer=method, seed=seed).training(normalize_observations=True).build_algo()


@pytest.mark.slow
def test_each_run_equals_the_run_alone(tmp_path, monkeypatch):
    alone = []
    learn = UpdateGroup._learn
    updating = set()

    def recorded(group):
        updating.add(threading.get_ident())
        return learn(group)

    monkeypatch.setattr(UpdateGroup, "_learn", recorded)
    for seed, method in enumerate(METHODS):
        algorithm = built(seed, method)
        results = [algorithm.train() for _ in range(1 + seed)]
        alone.append((weights(algorithm), results[-1]["learners"]))
    algorithms = [built(seed, method) for seed, method in enumerate(METHODS)]
    group = UpdateGroup([algorithm.learner for algorithm in algorithms])

    def run(seed, algorithm):
        algorithm.learner.join(group)
        results = [algorithm.train() for _ in range(1 + seed)]  # the first run ends first, and the others continue
        group.leave(algorithm.learner)
        algorithm.save_to_path(str(tmp_path / str(seed)))
        return weights(algorithm), results[-1]["learners"]

    with ThreadPoolExecutor(len(METHODS)) as pool:
        together = list(pool.map(run, range(len(METHODS)), algorithms))
    assert len(updating) == 1  # cuBLAS has handles per thread
    for seed, (found, reported) in enumerate(together):
        expected, alone_reported = alone[seed]
        # Adam amplifies rounding, by how much depends on the processor; other random numbers change weights by .03.
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-4)
        losses = {name: float(number) for name, number in alone_reported["default_policy"].items() if "loss" in name}
        assert {"critic_loss", "actor_loss", "alpha_loss"} <= losses.keys()
        for name, number in losses.items():
            assert float(reported["default_policy"][name]) == pytest.approx(number, rel=1e-2, abs=1e-4), name
        resumed = built(seed, METHODS[seed])
        resumed.restore_from_path(str(tmp_path / str(seed)))
        assert all(map(torch.equal, weights(resumed).values(), found.values()))


def test_a_run_that_is_one_draw_behind_first_learns_alone():
    algorithms = [built(seed, "Uniform") for seed in (0, 1)]
    ahead, behind = (algorithm.learner for algorithm in algorithms)
    for algorithm in algorithms:
        algorithm.train()
    batch = algorithms[1].replay_buffer.sample(32)
    ahead.learn_from(algorithms[0].replay_buffer.sample(32))
    group = UpdateGroup([behind, ahead])
    for learner in (behind, ahead):
        learner.join(group)
    behind.learn_from(batch)  # does not wait for the other run
    assert ahead.updates == behind.updates
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda learner: learner.learn_from(batch), (behind, ahead)))
    assert group._many.updates == [behind.update_rule, ahead.update_rule]
    assert behind.update_rule.updates == ahead.update_rule.updates == ahead.updates


def test_learners_that_are_many_updates_apart_are_rejected():
    one, other = built(0, "Uniform").learner, built(1, "Uniform").learner
    other.update_rule.updates = 33
    with pytest.raises(ValueError, match="the runs made 0 and 33 updates; expected at most 32 apart"):
        UpdateGroup([one, other])


FALLING = {"actor_lr": [[0, 3e-4], [100, 1e-5]]}


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({}, {"hiddens": (9,)}, "hiddens of the runs is"),
        ({"network": {"actor": ["ReLU", "Linear"]}}, {"network": {"actor": ["Linear"]}}, "network of the runs is"),
        (FALLING, {"actor_lr": [[0, 3e-4], [900, 1e-5]]}, "actor_lr of the runs is"),
        (FALLING, FALLING | {"updates_per_step": 2.0}, r"updates_per_step of the runs is 1\.0 and 2\.0; expected"),
    ],
)
def test_runs_with_different_settings_are_rejected(one, other, message):
    learners = [config().training(**settings).build_algo().learner for settings in (one, other)]
    with pytest.raises(ValueError, match=message):
        UpdateGroup(learners)


def test_runs_without_schedules_may_make_updates_at_other_steps():
    UpdateGroup([config().training(updates_per_step=updates).build_algo().learner for updates in (1.0, 2.0)])


class OwnUpdate(SACUpdate):
    def learn(self, batch, rng):
        return super().learn(batch, rng)


class OwnConfig(SACConfig):
    update_class = OwnUpdate


class OwnSAC(OffPolicyAlgorithm):
    config_class = OwnConfig


def test_unsupported_runs_are_rejected():
    for made, message in (
        (DQNConfig().environment("CartPole-v1"), "learns by DQNUpdate"),
        (config(buffer="LaBER"), "a replay method sets targets or losses"),
        (OwnConfig(OwnSAC).environment("Pendulum-v1"), "OwnUpdate has its own learn; expected none"),
    ):
        learner = made.build_algo().learner
        with pytest.raises(ValueError, match=message):
            UpdateGroup([learner, learner])
    with pytest.raises(ValueError, match="views of the runs is 1 and 2"):
        UpdateGroup([made.build_algo().learner for made in (config(), config(buffer="S4RL", views=2))])


def test_batches_are_on_one_device():
    here = Batch(make(3), torch.ones(3))
    there = here.map(lambda column: column.to("meta"))
    assert move_to_one_device([here, here]) == [here, here]
    moved = move_to_one_device([here, there])
    assert [batch.transitions.obs.device.type for batch in moved] == ["meta", "meta"]
