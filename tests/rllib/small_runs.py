"""Small configurations of our algorithms, their runs, and how their weights are compared."""

import torch

from interreplay.experiments.flags import presets
from interreplay.learning.settings import SACSettings
from interreplay.rllib import CrossQConfig, DDPGConfig, SACConfig, TD3Config, TQCConfig

CONFIGS = {"SAC": SACConfig, "TQC": TQCConfig, "CrossQ": CrossQConfig, "TD3": TD3Config, "DDPG": DDPGConfig}


def config(env="Pendulum-v1", buffer="Uniform", seed=0, trainer="SAC", **arguments):
    made = CONFIGS[trainer]().environment(env).replay(buffer, capacity=5_000, **arguments).debugging(seed=seed)
    return made.training(hiddens=(32, 32), train_batch_size=32, learning_starts=50, steps_per_iteration=75)


def of_preset(name, env="Pendulum-v1", buffer="Uniform"):
    """Return `config` with a preset's critics and update ratios, scaled down so that resets happen within a run."""
    preset = presets.load(name).settings("SAC", env)
    own = {key: preset[key] for key in preset.keys() & SACSettings.__dataclass_fields__.keys() - {"hiddens"}}
    own |= {"train_batch_size": 32, "policy_delay": min(4, own.get("policy_delay", 1))}
    if "reset_interval" in own:
        own["reset_interval"] = 90
    return config(env, buffer).training(**own, updates_per_step=1.5)


def weights(algorithm):
    return {k: v.clone() for k, v in algorithm.learner.single_module.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[k], b[k]) for k in a)


def run(made, iterations=2):
    algorithm = made.build_algo()
    results = [algorithm.train() for _ in range(iterations)]
    return algorithm, results


def trained(made, iterations=1):
    return run(made, iterations)[0]


def restored(made, folder):
    algorithm = made.build_algo()
    algorithm.restore_from_path(folder)
    return algorithm


def rows_of(algorithm):
    """Return the rows in the replay buffer."""
    storage = algorithm.replay_buffer.storage
    return storage[torch.arange(len(storage))]


def continued(made, folder, before=1, after=1):
    """Return a run that trains on after a checkpoint, and a new algorithm that resumes from the checkpoint."""
    algorithm = made()
    for _ in range(before):
        algorithm.train()
    algorithm.save_to_path(folder)
    resumed = made()
    resumed.restore_from_path(folder)
    for each in (algorithm, resumed):
        for _ in range(after):
            each.train()
    return algorithm, resumed
