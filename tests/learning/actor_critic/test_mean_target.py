"""Mean targets and resets at env steps, each against its definition."""

import copy

import pytest
import torch

from interreplay.learning.settings import CrossQSettings, SACSettings, TD3Settings, TQCSettings
from tests.learning.actor_critic.test_critic_options import CASES, ONES, networks_for
from tests.learning.batches import ACTIONS, OBS, N, batch, learn, rng

pytestmark = pytest.mark.usefixtures("float64_rows")


def with_constant_critics(kind, networks, settings, values):
    """An update whose critics and targets have the given values for all inputs."""
    made = networks_for(networks, settings)
    with torch.no_grad():
        for critics in (made.critics, made.targets):
            critics.weights[-1].zero_()
            critics.biases[-1].copy_(torch.tensor(values, dtype=torch.float64).view(-1, 1, 1))
    return kind(made, **settings)


@pytest.mark.parametrize(("networks", "kind"), CASES)
def test_critics_of_1_and_3_have_the_target_2(networks, kind):
    inputs = torch.zeros(4, OBS + ACTIONS, dtype=torch.float64)
    for target, value in (("mean", 2.0), ("min", 1.0)):
        update = with_constant_critics(kind, networks, {"critic_target": target}, [1.0, 3.0])
        with torch.no_grad():
            assert torch.equal(update.lowest_target([inputs], rng()), torch.full((4, 1), value, dtype=torch.float64))


@pytest.mark.parametrize(("networks", "kind"), CASES)
def test_the_policy_maximizes_the_mean(networks, kind):
    made = networks_for(networks, {})
    update = kind(made, critic_target="mean")
    state_actions = torch.randn(N, OBS + ACTIONS, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(update.values_for_actor([state_actions], rng()).sum(), state_actions)
    halves = [
        torch.autograd.grad(0.5 * made.critics.outputs(state_actions)[j].sum(), state_actions)[0] for j in range(2)
    ]
    torch.testing.assert_close(found, halves[0] + halves[1])


@pytest.mark.parametrize(("networks", "kind"), CASES)
def test_a_reset_at_an_env_step_equals_the_reset_after_its_updates(networks, kind):
    """Two updates per env step from step 3 on: step 5 makes updates 5 and 6."""
    by_updates = kind(networks_for(networks, {}), reset_interval=6)
    by_steps = kind(networks_for(networks, {}), reset_at=[5, 9])
    rngs = rng(), rng()
    for step in range(3, 8):
        for i in (2 * step, 2 * step + 1):
            results = [learn(update, batch(i), ONES, g) for update, g in zip((by_updates, by_steps), rngs, strict=True)]
            assert all(map(torch.equal, *results))
        by_steps.after_updates(step, rngs[1])
        assert by_steps.resets_at_steps == int(step >= 5)
        assert all(map(torch.equal, by_updates.networks.parameters(), by_steps.networks.parameters()))
        by_steps.after_updates(step, rngs[1])  # a reset happens once
        assert torch.equal(rngs[0].get_state(), rngs[1].get_state())


def test_resets_that_have_happened_are_part_of_the_state():
    networks, kind = CASES[0]
    update = kind(networks_for(networks, {}), reset_at=[5, 9])
    update.after_updates(7, rng())
    resumed = kind(networks_for(networks, {}, seed=1), reset_at=[5, 9])
    resumed.load_state_dict(update.state_dict())
    resumed.networks.load_state_dict(update.networks.state_dict())
    resumed.after_updates(8, rng())
    assert all(map(torch.equal, update.networks.parameters(), resumed.networks.parameters()))
    resumed.after_updates(9, rng(11))
    assert not all(map(torch.equal, update.networks.parameters(), resumed.networks.parameters()))
    assert resumed.resets_at_steps == 2


def test_a_fork_counts_the_env_steps_of_its_own_resets():
    networks, kind = CASES[0]
    for before in ([5], [3, 5, 9], None):
        parent = kind(networks_for(networks, {}), reset_at=before)
        parent.after_updates(7, rng())
        child = kind(networks_for(networks, {}, seed=1), reset_at=[6, 12])
        child.load_state_dict(parent.state_dict())
        start = copy.deepcopy(child.networks)
        child.after_updates(11, rng())
        assert all(map(torch.equal, start.parameters(), child.networks.parameters()))
        child.after_updates(12, rng())
        assert not all(map(torch.equal, start.parameters(), child.networks.parameters()))


def test_settings_that_contradict_each_other_are_rejected():
    with pytest.raises(ValueError, match=r"critic_blocks is 1 and critic_dropout 0.1; expected one of them 0"):
        SACSettings(critic_blocks=1, critic_dropout=0.1)
    with pytest.raises(ValueError, match="critic_blocks is 2"):
        TD3Settings(critic_blocks=2, critic_dropout=0.1)
    assert TQCSettings.critic_target == "mean"
    assert CrossQSettings.critic_blocks == 0
