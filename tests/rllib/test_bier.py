"""SAC with BIER, long enough for late failures."""

import numpy as np
import pytest
import torch

from interreplay.rllib import SACConfig


@pytest.mark.slow
def test_a_thousand_updates_without_a_nan():
    config = SACConfig().environment("Pendulum-v1").debugging(seed=0)
    config.replay("BIER", capacity=1_400, weighted_updates=True, retrain_interval=250, holdout_split=0.2)
    config.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=650)
    config.training(hiddens=(32, 32), train_batch_size_per_learner=64)
    algorithm = config.build_algo()
    for _ in range(2):
        result = algorithm.train()
        assert np.isfinite(list(result["learners"]["default_policy"].values())).all()
    buffer = algorithm.replay_buffer
    sample = buffer.sample(256)
    for column in (*sample.transitions.columns().values(), sample.variances, sample.row_weights):
        assert torch.isfinite(column).all() if column.is_floating_point() else True
    found = buffer.synthesizer.statistics()
    assert found["gp_fits"] >= 4 and found["gp_failed_share"] == 0 and found["gp_fit_failures"] == 0
    assert found["holdout_rmse_ratio"] < 1.0
