"""SAC with discrete actions, end to end."""

import numpy as np
import pytest
import torch

from tests.rllib.small_runs import config, continued
from tests.rllib.spaces_envs import Steps
from tests.rllib.test_checkpoints import assert_same_run


def learned(algorithm, iterations=2):
    results = [algorithm.train() for _ in range(iterations)]
    return np.isfinite(results[-1]["learners"]["default_policy"]["critic_loss"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("buffer", "arguments"),
    [("PER", {}), ("S4RL", {"augmentation": "gaussian", "views": 2})],
)
def test_methods_that_keep_actions_train_and_resume(buffer, arguments, tmp_path):
    made = lambda: config("CartPole-v1", buffer, **arguments).build_algo()
    algorithm, resumed = continued(made, tmp_path / "c")
    assert_same_run(algorithm, resumed)
    assert learned(algorithm, 1)
    assert algorithm.replay_buffer.storage.columns["actions"] == ((), torch.int64)
    assert len(algorithm.replay_buffer.storage.column("actions")[:150].unique()) == 2


@pytest.mark.slow
def test_actions_with_an_offset_in_several_environments():
    algorithm = config(Steps).env_runners(num_envs_per_env_runner=3).build_algo()
    assert learned(algorithm)
    assert algorithm.replay_buffer.storage.column("actions")[:150].unique().tolist() == [0, 1, 2]
    module = algorithm.learner.single_module
    obs = {
        name: torch.zeros(5, *part.shape) for name, part in algorithm.env_runner.env.single_observation_space.items()
    }
    for forward in (module.forward_inference, module.forward_exploration):
        assert set(forward({"obs": obs})["actions"].tolist()) <= {-1, 0, 1}
    episodes = algorithm.env_runner.sample(num_episodes=1, explore=False)
    assert len(episodes[0]) == 25


@pytest.mark.slow
def test_sac_learns_discrete_actions():
    """The best action depends on the point's position; a policy that ignores it has a return of about -25."""
    algorithm = config(Steps).training(updates_per_step=0.4, steps_per_iteration=1200, initial_alpha=0.1).build_algo()
    learned(algorithm, 1)
    returns = [e.get_return() for e in algorithm.env_runner.sample(num_episodes=10, explore=False)]
    assert np.mean(returns) > -6


def test_blends_of_discrete_observations_are_rejected():
    with pytest.raises(ValueError, match=r"obs of torch.int64 and actions of torch.int64 cannot be blended.*Discrete"):
        config("FrozenLake-v1", "NMER").build_algo()


def test_the_target_entropy_follows_the_number_of_actions():
    discrete = config("CartPole-v1").build_algo()
    assert discrete.learner._update_rule.target_entropy == pytest.approx(0.98 * np.log(2))
    continuous = config("Pendulum-v1").build_algo()
    assert continuous.learner._update_rule.target_entropy == -1.0
