"""Actions of shape ``()`` are learned like actions of shape ``(1,)``."""

import pytest
import torch

from interreplay.learning.actor_critic.crossq import CrossQNetworks, CrossQUpdate
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.actor_critic.td3 import DeterministicNetworks, TD3Update
from interreplay.learning.actor_critic.tqc import TQCNetworks, TQCUpdate
from tests.learning.batches import OBS, N, batch, learn

ALGORITHMS = {
    "SAC": (SACNetworks, SACUpdate, {}),
    "TD3": (DeterministicNetworks, TD3Update, {"bc_alpha": 2.5}),
    "TQC": (TQCNetworks, TQCUpdate, {}),
    "CrossQ": (CrossQNetworks, CrossQUpdate, {}),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_scalar_actions_equal_vectors_of_one_number(name):
    networks_class, update_class, settings = ALGORITHMS[name]
    rows = batch().map(lambda column: column.float() if column.is_floating_point() else column)
    results = []
    for actions in (rows.actions[:, 0], rows.actions[:, :1]):
        torch.manual_seed(0)
        networks = networks_class(OBS, 1, hiddens=(8,))
        rng = torch.Generator().manual_seed(0)
        results.append(learn(update_class(networks, **settings), rows.replace(actions=actions), torch.ones(N), rng))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
