"""Small algorithms of every kind, untrained or after one iteration, and their observations."""

import gymnasium as gym
import numpy as np

import interreplay.rllib as ours
from tests.rllib.small_runs import CONFIGS
from tests.rllib.spaces_envs import KINDS, Steps


class Uneven(gym.Env):
    """Two action dimensions with different ranges, and observations far from 0."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Box(np.array([-3.0, 1.0]), np.array([1.0, 11.0]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self._seen(), 0.0, False, self.np_random.random() < 0.1, {}

    def _seen(self):
        return self.np_random.normal((100.0, -5.0, 0.0), (20.0, 0.1, 1.0))


gym.register("Uneven-v0", Uneven)
gym.register("Turns-v0", Steps, kwargs={"config": {"kind": "ImageAndVector"}})

# Trainer, environment and settings of each policy; with an iteration of training, normalization has statistics.
CASES = {
    **{trainer: (trainer, "Pendulum-v1", {}, 0) for trainer in CONFIGS},
    "residual": ("SAC", "Pendulum-v1", {"critic_blocks": 1, "actor_blocks": 1, "actor_width": 12}, 0),
    "uneven": ("SAC", "Uneven-v0", {"normalize_observations": True}, 1),
    "unsquashed": ("A2C", "Uneven-v0", {"normalize_observations": True}, 1),
    "discrete SAC": ("SAC", "Turns-v0", {}, 0),
    "DQN": ("DQN", "CartPole-v1", {"matrix_dtype": "bfloat16"}, 0),
    "Rainbow": ("Rainbow", "Turns-v0", {"encoder": "minatar", "normalize_observations": True}, 1),
    "IQN": ("IQN", "CartPole-v1", {"atoms": 7}, 0),
    "QRDQN": ("QRDQN", "CartPole-v1", {"atoms": 7}, 0),
    "IMPALA": ("IMPALA", "CartPole-v1", {"shared_layers": False}, 0),
    "goals": ("TD3", "FetchReach-v4", {"normalize_observations": True}, 1),
    **{kind: ("SAC", f"{kind}Line-v0", {"normalize_observations": True}, 0) for kind in KINDS},
}


def built(trainer, env, settings, iterations):
    config = getattr(ours, f"{trainer}Config")().environment(env).debugging(seed=0)
    own = {"hiddens": (16,), "steps_per_iteration": 40, **settings}
    if "learning_starts" not in settings and trainer not in ("A2C", "IMPALA"):
        own |= {"train_batch_size_per_learner": 8, "num_steps_sampled_before_learning_starts": 30}
        config.replay(config.replay_buffer_config["type"], capacity=500)
    algorithm = config.training(**own).build_algo()
    for _ in range(iterations):
        algorithm.train()
    return algorithm
