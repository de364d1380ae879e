"""SAC in RLlib: the loop, seeds, runners, evaluation, and parts of a run."""

import failing_envs
import numpy as np
import pytest
import torch
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv

import replay_buffers
from interreplay import Mix
from interreplay.errors import NonFiniteError
from interreplay.rllib import SACConfig
from interreplay.rllib.env_runner.runner_state import read_success
from interreplay.selection import Prioritized
from tests.rllib.small_runs import config, rows_of, run, same, trained, weights


@pytest.mark.slow
def test_two_runs_with_one_seed_are_identical_and_with_another_are_not():
    first, second, other = (trained(config("HalfCheetah-v5", "NMER", seed=s), 2) for s in (3, 3, 4))
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other))
    torch.testing.assert_close(rows_of(first).columns(), rows_of(second).columns(), rtol=0, atol=0)


@pytest.mark.parametrize(("ratio", "updates"), [(2.0, 202), (0.5, 50)])
def test_update_to_data_ratio(ratio, updates):
    algorithm, results = run(config().training(updates_per_step=ratio))
    assert results[-1]["learners"]["default_policy"]["num_updates_lifetime"] == updates


def test_a_part_given_as_an_object_is_copied_for_each_run():
    first, (result,) = run(config(buffer="NMER", selector=Prioritized()).training(updates_per_step=0), 1)
    assert "raw" in first.replay_buffer.selector.state_dict()
    assert "raw" not in result["config"]["replay_buffer_config"]["selector"].state_dict()
    second = first.config.copy(copy_frozen=False).build_algo()
    assert "raw" not in second.replay_buffer.selector.state_dict()


def test_a_mix_object_is_used_with_its_sources():
    buffer = replay_buffers.NMER(capacity=500, k=2, seed=0)
    assert trained(config().replay(Mix({"only": buffer}), capacity=1_000)).replay_buffer.capacity == 500
    by_name = SACConfig().replay("Mix", sources={"near": "NMER"}, shares={"near": 1.0}).replay_buffer_config
    assert by_name == {"type": "Mix", "sources": {"near": "NMER"}, "shares": {"near": 1.0}}
    with pytest.raises(ValueError, match="Mix takes no argument 'share'"):
        SACConfig().replay("Mix", sources={"near": "NMER"}, share={"near": 1.0})


def test_the_largest_error_of_the_critics_reaches_the_selector():
    algorithm = trained(config(buffer="LAP").training(updates_per_step=0))
    assert algorithm.learner.update_rule.scores_wanted == {"largest_error"}
    buffer = algorithm.replay_buffer
    sample = buffer.sample(32)
    result = algorithm.learner.learn_from(sample)
    assert (result.scores["largest_error"] >= result.errors.abs()).all()
    algorithm.experience.update(sample, result)
    last = {int(slot): float(score) for slot, score in zip(sample.slots, result.scores["largest_error"], strict=True)}
    found = buffer.selector.priorities(torch.tensor(list(last))).tolist()
    assert found == pytest.approx([max(score, 1.0) for score in last.values()])
    plain = config(buffer="PER").build_algo()
    assert plain.learner.update_rule.scores_wanted == frozenset()


@pytest.mark.parametrize("settings", [{"huber_delta": 2.0}, {"pal_alpha": 0.4}])
@pytest.mark.parametrize("buffer", ["LAP", "LA3P"])
def test_two_losses_of_the_critics_are_rejected(buffer, settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{name} is .*; expected none, because rows of {buffer} define"):
        config(buffer=buffer).training(**settings).build_algo()


class Succeeding(failing_envs.Counting):
    """Environment that reports success in every third step, and none in the first."""

    def step(self, action):
        super().step(action)
        info = {"is_success": self.total % 3 == 0} if self.total > 1 else {}
        return np.full(2, self.total / 1_000, np.float32), 0.0, False, self.total % 10 == 0, info


def test_values_of_success():
    assert read_success({"success": np.array([True])}) and read_success({"success": 1})
    assert read_success({"is_success": np.array(0.0), "success": True}) == 0.0
    for other in ({"reach": True}, np.array([True, False]), "no"):
        assert read_success({"success": other}) is None, other
    assert read_success({}) is None


@pytest.mark.slow
def test_success_fills_an_event_table():
    made = config(Succeeding, "EventTables", events=["success"], history=0).training(n_step=1)
    algorithm, results = run(made)
    storage, table = algorithm.replay_buffer.storage, algorithm.replay_buffer.selector._tables[0]
    flags = storage.column("extras.success")[:150]
    steps = torch.round(storage[torch.arange(150)].next_obs[:, 0] * 1_000).int()
    assert torch.equal(flags, steps % 3 == 0) and sorted(table.members.tolist()) == flags.nonzero()[:, 0].tolist()
    assert 0 < results[-1]["replay_buffer"]["event_table_0_rows"] <= len(table) == flags.sum() > 40


@pytest.mark.parametrize("buffer", [n for n in replay_buffers.__all__ if n not in ("Uniform", "PER", "NMER", "HER")])
def test_every_other_method_trains(buffer):
    _, results = run(config(buffer=buffer).training(steps_per_iteration=58), 1)
    assert np.isfinite(results[-1]["learners"]["default_policy"]["critic_loss"])
    assert np.isfinite(results[-1]["replay_buffer"]["td_error_mean"])


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["cosine", "kl"])
def test_elite_compares_recorded_and_current_policies(distance):
    algorithm = config(buffer="Elite", distance=distance).build_algo()
    given = algorithm.learner.single_module.policy_output(torch.zeros(1, 3)).detach()
    algorithm.train()
    storage, selector = algorithm.replay_buffer.storage, algorithm.replay_buffer.selector
    stored = storage.column("extras.behavior")[:75]
    of_uniform_actions = algorithm.learner.single_module.policy.record_random(50)["behavior"]
    assert torch.equal(stored[:50], of_uniform_actions)
    assert stored[50:].shape[1:] == given.shape[1:] and len(stored[50:].unique(dim=0)) == 25
    assert (selector.row_distances(storage, torch.arange(75)) > 0).all()
    # The current policy has distance 0 to itself.
    rows = storage[torch.arange(8)]
    storage.column("extras.behavior")[:8] = algorithm.learner.single_module.policy_output(rows.obs).detach()
    assert selector.row_distances(storage, torch.arange(8)).abs().max() < 1e-6
    assert np.isfinite(algorithm.train()["learners"]["default_policy"]["critic_loss"])


@pytest.mark.slow
def test_the_simulator_checks_blends_on_request():
    made = config("HalfCheetah-v5", "NMER").training(on_manifold_rows=8)
    algorithm, results = run(made)
    assert 0 < results[-1]["replay_buffer"]["on_manifold_state_error"] < 10
    plain, _ = run(config("HalfCheetah-v5", "NMER"))
    assert same(weights(algorithm), weights(plain)), "looking changes nothing"


def test_the_simulator_is_created_from_a_class():
    made = config(InvertedPendulumEnv).training(on_manifold_rows=8)
    algorithm = made.build_algo()
    assert isinstance(algorithm.diagnostics.on_manifold.env, InvertedPendulumEnv)


def test_a_reward_that_is_not_finite_stops_the_run_and_names_the_step():
    algorithm = config(failing_envs.RewardNaN).build_algo()
    with pytest.raises(NonFiniteError, match="rewards holds nan at env step 7"):
        algorithm.train()
    assert algorithm.env_steps == 6 == len(algorithm.replay_buffer)


def test_request_stop_ends_an_iteration_early_and_training_continues():
    algorithm = config().build_algo()
    algorithm.on_progress = lambda steps: algorithm.request_stop() if steps >= 60 else None
    algorithm.train()
    assert algorithm.env_steps == 60
    algorithm.on_progress = None
    algorithm.train()
    assert algorithm.env_steps == 75


def test_settings_reach_the_update_the_learner_and_the_buffer():
    """RLlib marks retired settings by -1, and algorithms are built from the state of a configuration."""
    rates = {"lr": np.float32(1e-3), "target_entropy": -1.0}
    algorithm = config("HalfCheetah-v5", seed=np.int64(3)).training(n_step=3, gamma=0.9, **rates).build_algo()
    learner = algorithm.learner
    assert algorithm.config.lr == pytest.approx(1e-3)
    assert (learner.update_rule.target_entropy, learner.generator.initial_seed()) == (-1.0, 3)
    assert (algorithm.replay_buffer.view.n_step, algorithm.replay_buffer.view.gamma) == (3, 0.9)


@pytest.mark.slow
def test_a_thousand_updates_without_a_nan():
    made = config(buffer="BIER", weighted_updates=True, retrain_interval=250, holdout_split=0.2)
    made.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=650)
    algorithm, results = run(made.training(train_batch_size_per_learner=64))
    for result in results:
        assert np.isfinite(list(result["learners"]["default_policy"].values())).all()
    buffer = algorithm.replay_buffer
    sample = buffer.sample(256)
    for column in (*sample.transitions.columns().values(), sample.variances, sample.row_weights):
        assert torch.isfinite(column).all() if column.is_floating_point() else True
    found = buffer.synthesizer.statistics()
    assert found["gp_fits"] >= 4 and found["gp_failed_share"] == 0 and found["gp_fit_failures"] == 0
    assert found["holdout_rmse_ratio"] < 1.0
