"""Options of critics and policies (number, targets, normalization, dropout, delays, AdamW, resets), by definition."""

import copy
import math

import pytest
import torch
from torch import nn

from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.actor_critic.td3 import DeterministicNetworks, TD3Update
from interreplay.learning.networks.between_layers import Dropout
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.settings import CrossQSettings, SACSettings, TD3Settings, TQCSettings
from tests.learning.actor_critic.test_sac import plain_policy, plain_q
from tests.learning.batches import ACTIONS, OBS, N, batch, learn, rng

pytestmark = pytest.mark.usefixtures("float64_rows")

ONES = torch.ones(N, dtype=torch.float64)
WIDTHS = (16, 24)
REDQ = {"n_critics": 5, "target_subset": 2, "actor_target": "mean"}
DROQ = {"critic_layer_norm": True, "critic_dropout": 0.2, "actor_target": "mean"}


def networks_for(kind, settings, seed=0):
    torch.manual_seed(seed)
    names = {"n_critics": "critics", "critic_layer_norm": "layer_norm", "critic_dropout": "dropout"}
    shape = {argument: settings[name] for name, argument in names.items() if name in settings}
    made = kind(OBS, ACTIONS, WIDTHS, **shape).double()
    for parameter in made.targets.parameters():  # different weights, so that no test passes by confusing networks
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made


def sac(seed=0, **settings):
    return SACUpdate(networks_for(SACNetworks, settings, seed), target_entropy=-3.0, **settings)


def dense(dropped, network, layer, p):
    """Return the mask of one hidden layer: 1/(1 − p) where a unit is kept."""
    mask = torch.full((N, WIDTHS[layer]), 1.0 / (1.0 - p), dtype=torch.float64)
    for flat in dropped[network][layer].tolist():
        mask[flat // WIDTHS[layer], flat % WIDTHS[layer]] = 0.0
    return mask


def droq_q(critics, j, x, masks):
    """Linear → dropout → layer normalization → ReLU, written out."""
    for i in range(len(WIDTHS)):
        x = (x @ critics.weights[i][j] + critics.biases[i][j]) * masks[i]
        centered = x - x.mean(dim=1, keepdim=True)
        x = centered / (centered.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        x = (x * critics.scales[i][j] + critics.shifts[i][j]).clamp(min=0)
    return (x @ critics.weights[-1][j] + critics.biases[-1][j])[:, 0]


@pytest.mark.parametrize("backup_entropy", [True, False])
def test_redqs_target_is_the_minimum_of_the_drawn_subset(backup_entropy):
    update, rows = sac(**REDQ, backup_entropy=backup_entropy), batch()
    before = copy.deepcopy(update.networks)
    errors, _ = learn(update, rows, ONES, rng())
    g = rng()
    a2, log_probs = plain_policy(before.actor, rows.next_obs, torch.randn(N, ACTIONS, generator=g, dtype=torch.float64))
    subset = torch.randperm(5, generator=g)[:2].tolist()
    inputs = torch.cat([rows.next_obs, a2], 1)
    value = torch.stack([plain_q(before.targets, j, inputs) for j in subset]).min(0).values
    if backup_entropy:
        value = value - before.log_alpha.exp() * log_probs
    target = rows.rewards + rows.discounts * value
    z = torch.cat([rows.obs, rows.actions], 1)
    expected = torch.stack([plain_q(before.critics, j, z) - target for j in range(5)]).mean(0)
    torch.testing.assert_close(errors, expected.detach(), rtol=1e-9, atol=1e-11)


def test_droqs_passes_have_different_masks_in_targets_critics_and_the_actors_loss():
    update, rows, p = sac(**DROQ), batch(), DROQ["critic_dropout"]
    before = copy.deepcopy(update.networks)
    errors, report = learn(update, rows, ONES, rng())
    g, noise = rng(), lambda g: torch.randn(N, ACTIONS, generator=g, dtype=torch.float64)
    masks = lambda dropped, j: [dense(dropped, j, i, p) for i in range(2)]
    with torch.no_grad():
        a2, log_probs = plain_policy(before.actor, rows.next_obs, noise(g))
        dropped = Dropout(p, WIDTHS).draw(2, N, g)
        z2 = torch.cat([rows.next_obs, a2], 1)
        value = torch.minimum(*(droq_q(before.targets, j, z2, masks(dropped, j)) for j in range(2)))
        target = rows.rewards + rows.discounts * (value - before.log_alpha.exp() * log_probs)
        dropped = Dropout(p, WIDTHS).draw(2, N, g)
        z = torch.cat([rows.obs, rows.actions], 1)
        delta = [droq_q(before.critics, j, z, masks(dropped, j)) - target for j in range(2)]
        torch.testing.assert_close(errors, (delta[0] + delta[1]) / 2, rtol=1e-9, atol=1e-11)
        # The actor's loss is evaluated with the critics after their step.
        a, log_probs = plain_policy(before.actor, rows.obs, noise(g))
        dropped = Dropout(p, WIDTHS).draw(2, N, g)
        za = torch.cat([rows.obs, a], 1)
        q = sum(droq_q(update.networks.critics, j, za, masks(dropped, j)) for j in range(2)) / 2
    assert math.isclose(report[1].item(), (before.log_alpha.exp() * log_probs - q).mean().item(), rel_tol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("widths", [(3, 3), (2, 4)])
def test_dropout_patterns_are_as_frequent_as_independent_draws(widths, masks):
    units, p, draws, g = sum(widths), 0.3, 2_000, rng()
    counts, dropout = torch.zeros(2**units), Dropout(p, widths)
    for _ in range(draws):
        ((first, second),) = dropout.draw_masks(1, 1, g) if masks else dropout.draw(1, 1, g)
        if masks:
            first, second = (mask.flatten().nonzero().squeeze(1) for mask in (first, second))
        out = torch.cat([first, second + widths[0]]).unique()
        counts[int((2**out).sum())] += 1
    ones = torch.tensor([bin(i).count("1") for i in range(2**units)])
    expected = draws * p**ones * (1 - p) ** (units - ones)
    large = expected > 5
    assert ((counts - expected)[large].square() / expected[large]).sum() < 100  # .1 % of cases with some 60


@pytest.mark.parametrize("p", [1e-4, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("widths", [(40, 60), (50, 50)])
def test_dropout_affects_all_units_equally(p, widths):
    dropped = Dropout(p, widths).draw(3, 100, rng())
    assert [len(each) for each in dropped] == [2, 2, 2]
    left_out = [units.unique() for each in dropped for units in each]
    for units, width in zip(left_out, widths * 3, strict=True):
        assert not len(units) or (units.min() >= 0 and units.max() < 100 * width)
    count, trials = sum(map(len, left_out)), 3 * 100 * 100
    assert abs(count - p * trials) < 4 * math.sqrt(p * (1 - p) * trials) + 1
    thirds = torch.histc(torch.cat(left_out[::2]).double(), 3, 0, 100 * widths[0])
    assert p < 0.01 or (thirds - thirds.mean()).abs().max() < 5 * math.sqrt(p * (1 - p) * 100 * widths[0]) + 1
    # Networks drop different units.
    assert p < 0.01 or not torch.equal(left_out[0], left_out[2])


def test_without_dropped_units_nothing_is_dropped_and_nothing_drawn():
    torch.manual_seed(0)
    critics, x, g = BatchedMLP(2, (5, *WIDTHS, 1), dropout=0.5), torch.randn(N, 5), rng()
    assert torch.equal(critics.outputs(x), critics.outputs(x))
    assert BatchedMLP(2, (5, *WIDTHS, 1)).draw_dropped(x, g) is None
    assert torch.equal(g.get_state(), rng().get_state())


@pytest.mark.parametrize("delay", [1, 3])
def test_sacs_policy_and_temperature_wait_for_their_turn(delay):
    update = sac(policy_delay=delay)
    moved, reports = [], []
    for i in range(6):
        before = copy.deepcopy(update.networks)
        reports.append(learn(update, batch(i), ONES, rng(i))[1])
        pairs = zip(update.networks.named_parameters(), before.parameters(), strict=True)
        moved.append({name.partition(".")[0] for (name, mine), theirs in pairs if not torch.equal(mine, theirs)})
    always, late = {"critics", "targets"}, {"actor", "log_alpha"}
    assert moved == [always | (late if (i + 1) % delay == 0 else set()) for i in range(6)]
    # Between its updates, the policy's metrics do not change.
    for i in range(1, 6):
        assert torch.equal(reports[i][1:4], reports[i - 1][1:4]) == ((i + 1) % delay != 0)


CASES = [
    (SACNetworks, SACUpdate),
    (DeterministicNetworks, TD3Update),
]


@pytest.mark.parametrize(("networks", "kind"), CASES)
def test_a_reset_reinitializes_networks_and_optimizers_and_keeps_counts_and_rates(networks, kind):
    settings = {"reset_interval": 4, "critic_layer_norm": True, "actor_lr": 0.02}
    made = networks_for(networks, settings)
    made.encoder = nn.Linear(OBS, OBS).double()
    made.target_encoder = copy.deepcopy(made.encoder).requires_grad_(False)
    update, g = kind(made, **settings), rng()
    for i in range(3):
        learn(update, batch(i), ONES, g)
    before, encoder = copy.deepcopy(made), None
    learn(update, batch(3), ONES, g)
    encoder = {name: value for name, value in made.encoder.state_dict().items()}
    assert update.updates == 4 and not any(optimizer.state for optimizer in update.optimizers.values())
    assert update.optimizers["actor"].param_groups[0]["lr"] == 0.02
    for name in ("critics", "actor"):
        layers = getattr(made, name) if name == "critics" else made.actor.body
        for weight, old in zip(layers.weights, getattr(before, name, None).parameters(), strict=False):
            assert weight.abs().max() <= 1 / math.sqrt(weight.shape[1]) and not torch.equal(weight, old)
    assert all(torch.equal(scale, torch.ones_like(scale)) for scale in made.critics.scales)
    torch.testing.assert_close(made.targets.state_dict(), made.critics.state_dict(), rtol=0, atol=0)
    if networks is SACNetworks:
        assert made.log_alpha == 0.0
    else:
        assert all(map(torch.equal, made.target_actor.parameters(), made.actor.parameters()))
    old = before.encoder.state_dict()
    assert all((encoder[name] - old[name]).abs().max() < 0.01 for name in old), "the encoder learned one step more"


def test_settings_come_as_a_dataclass_and_by_name():
    made = SACUpdate(networks_for(SACNetworks, {}), settings=SACSettings(tau=0.5, actor_lr=0.1), actor_lr=0.2)
    assert (made.settings.tau, made.settings.actor_lr, made.target_entropy) == (0.5, 0.2, -3.0)
    half = SACUpdate(networks_for(SACNetworks, {}), settings=SACSettings(target_entropy="half"))
    assert half.target_entropy == -1.5
    with pytest.raises(TypeError, match="actor_rate"):
        SACUpdate(networks_for(SACNetworks, {}), actor_rate=0.2)


@pytest.mark.parametrize(("networks", "kind"), CASES)
def test_critics_of_1_and_3_have_the_target_2(networks, kind):
    for target, value in (("mean", 2.0), ("min", 1.0)):
        update = kind(networks_for(networks, {}), critic_target=target)
        update.networks.targets.outputs = lambda *given, **options: torch.tensor([[[1.0]], [[3.0]]]).expand(2, 4, 1)
        assert update.lowest_target([torch.zeros(4, OBS + ACTIONS)], rng()).tolist() == [[value]] * 4


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
