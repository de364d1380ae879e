"""Losses, weights and scores of rows in all updates, compared with definitions in float64."""

import copy

import pytest
import torch

from interreplay.buffer.sample import JoinedSample, Sample
from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.learning.losses import PAL, CriticLoss, Huber, RowwiseLoss, Squared, make_loss
from interreplay.learning.update import Batch
from interreplay.transitions import cat
from tests.learning.batches import N, batch
from tests.learning.update_cases import ALGORITHMS, assert_equal, keep_float64, make  # noqa: F401

ERRORS = torch.randn((2, N), generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 3
NAMES = frozenset({"mean_error", "largest_error", "reducible_loss"})
OF_MEANS = [name for name in ALGORITHMS if name != "TQC"]
"""Algorithms whose critics learn the mean return; the loss of others cannot be changed by rows."""


def rows_of(algorithm, seed=1):
    return batch(seed, discrete=algorithm == "discrete SAC")


def weighed(seed=0):
    return torch.rand(N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(algorithm, **settings):
    """Return an update whose networks are equal for each call."""
    _, update, own = ALGORITHMS[algorithm]
    return update(make(algorithm), **own, **settings)


def written_out(errors, alpha):
    """Return PAL by its definition in the paper."""
    priorities = errors.abs().max(dim=0).values.clamp(min=1) ** alpha
    above = errors.abs() ** (1 + alpha) / (1 + alpha)
    return torch.where(errors.abs() < 1, 0.5 * errors**2, above) / priorities.mean()


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_pal_equals_its_definition(alpha):
    torch.testing.assert_close(PAL(alpha).values(ERRORS), written_out(ERRORS, alpha))


def test_losses_have_the_gradients_of_their_definitions():
    """δ for ½δ², δ within ±d for Huber's loss, and PAL's with its divisor constant."""
    errors = ERRORS.clone().requires_grad_()
    divisor = (ERRORS.abs().max(dim=0).values.clamp(min=1) ** 0.4).mean()
    of_pal = ERRORS.clamp(-1, 1) * ERRORS.abs().clamp(min=1) ** 0.4 / divisor
    expected = {Squared(): ERRORS, Huber(0.7): ERRORS.clamp(-0.7, 0.7), PAL(0.4): of_pal}
    for loss, gradient in expected.items():
        (found,) = torch.autograd.grad(loss.values(errors).sum(), errors)
        torch.testing.assert_close(found, gradient)


def test_losses_with_invalid_arguments_are_rejected():
    for kind, name, value in (("Huber", "delta", -3), ("Huber", "delta", "a"), ("PAL", "alpha", 7)):
        with pytest.raises(ValueError, match=f"critic_loss {kind}: {name} is {value!r}; expected a number"):
            make_loss({"type": kind, name: value})


def test_by_rows_is_each_loss_of_its_rows():
    loss = RowwiseLoss(((12, PAL(0.4)), (8, Huber(1.0)), (N - 20, Squared())))
    parts = [PAL(0.4).values(ERRORS[:, :12]), Huber(1.0).values(ERRORS[:, 12:20]), Squared().values(ERRORS[:, 20:])]
    torch.testing.assert_close(loss.values(ERRORS), torch.cat(parts, dim=1))
    assert loss.select_rows(slice(10, 15)) == RowwiseLoss(((2, PAL(0.4)), (3, Huber(1.0)), (0, Squared())))
    mask = torch.arange(N) % 2 == 0
    assert loss.select_rows(mask) == RowwiseLoss(((6, PAL(0.4)), (4, Huber(1.0)), (N // 2 - 10, Squared())))


def test_what_rows_leave_open_is_the_algorithms_own():
    open_ended = RowwiseLoss(((4, None), (N - 4, Huber(1.0))))
    whole = open_ended.or_else(Squared())
    expected = [Squared().values(ERRORS[:, :4]), Huber(1.0).values(ERRORS[:, 4:])]
    torch.testing.assert_close(whole.values(ERRORS), torch.cat(expected, dim=1))
    assert Huber(2.0).or_else(Squared()) == Huber(2.0)


def test_joined_batches_keep_their_losses_and_weights():
    def sample(size, **more):
        rows, index = batch()[torch.arange(size)], torch.arange(size)
        ones = torch.ones(size)
        return Sample(rows, index, ones, index - index - 1, None, ones, 100, **more)

    mixed = JoinedSample([sample(5), sample(7, critic_loss=Huber(1.0), actor_weights=torch.full((7,), 2.0))], [0, 1])
    assert mixed.critic_loss == RowwiseLoss(((5, None), (7, Huber(1.0))))
    assert mixed.actor_weights.tolist() == [1.0] * 5 + [2.0] * 7
    assert mixed.select_source(1)[0].critic_loss == Huber(1.0)
    assert JoinedSample([sample(5), sample(3)], [0, 1]).critic_loss is None


@pytest.mark.parametrize("algorithm", OF_MEANS)
def test_losses_of_rows_override_the_loss_of_the_update(algorithm):
    ends = []
    for settings, loss in (({"huber_delta": 1.0}, None), ({"pal_alpha": 0.4}, Huber(1.0))):
        update = made(algorithm, **settings)
        update.update(Batch(rows_of(algorithm), weighed(), critic_loss=loss), torch.Generator().manual_seed(7))
        ends.append(update)
    assert_equal(*ends)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_actor_weights_are_for_the_actor_and_the_temperature_alone(algorithm):
    """They act like row weights for these networks, and do not affect the critics."""
    alone, as_rows, without = (made(algorithm) for _ in range(3))
    weights, rows = weighed(3), rows_of(algorithm)
    for update in (alone, as_rows, without):
        update.updates = 1  # an update of TD3's actor
    alone.update(Batch(rows, weighed(), actor_weights=weights), torch.Generator().manual_seed(7))
    without.update(Batch(rows, weighed()), torch.Generator().manual_seed(7))
    as_rows.networks.critics.requires_grad_(True)
    halved = Batch(rows, weighed() / weights, row_weights=weights)  # the critics' weights are what they were
    as_rows.update(halved, torch.Generator().manual_seed(7))
    for name, value in alone.networks.state_dict().items():
        torch.testing.assert_close(value, as_rows.networks.state_dict()[name], rtol=1e-9, atol=1e-11, msg=name)
        same = torch.equal(value, without.networks.state_dict()[name])
        assert same == ("actor" not in name and "alpha" not in name), name


def test_the_loss_of_a_distribution_stays_its_own():
    ends = [made("TQC"), made("TQC")]
    for update, loss in zip(ends, (None, Huber(0.1)), strict=True):
        update.update(Batch(rows_of("TQC"), weighed(), critic_loss=loss), torch.Generator().manual_seed(7))
    assert_equal(*ends)


@pytest.mark.parametrize("algorithm", OF_MEANS)
def test_targets_that_rows_bring_are_learned(algorithm):
    """With the targets that the update would compute, results are equal, but no random numbers are drawn for them."""
    rows, drawn, rest = rows_of(algorithm), torch.Generator().manual_seed(7), torch.Generator().manual_seed(7)
    twice = [made(algorithm) for _ in range(2)]
    targets = twice[0].score(rows, {"target"}, torch.Generator().manual_seed(7))["target"]
    twice[0].update(Batch(rows, weighed()), drawn)
    twice[1].target_values(rows, rows.next_obs, 1, rest)
    twice[1].update(Batch(rows, weighed(), targets=targets), rest)
    assert torch.equal(drawn.get_state(), rest.get_state())
    assert_equal(*twice)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_weight_0_teach_nothing(algorithm):
    weights = (torch.arange(N) < 20).double()
    ends = []
    for seed in (1, 2):
        update = made(algorithm)
        rows = cat([rows_of(algorithm, 1)[:20], rows_of(algorithm, seed)[20:]])
        for _ in range(4):
            update.update(Batch(rows, weights, None, weights), torch.Generator().manual_seed(7))
        ends.append(update)
    assert_equal(*ends)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_row_weights_of_shape_n_1_are_rejected(algorithm):
    with pytest.raises(ValueError, match=r"weights have shape \(32, 1\); expected \(32,\)"):
        made(algorithm).update(Batch(rows_of(algorithm), weighed(), torch.ones(N, 1)), torch.Generator())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_scores_match_their_definitions(algorithm):
    update = made(algorithm)
    networks = update.networks
    rows = rows_of(algorithm)
    for parameter in networks.targets.parameters():
        parameter.data.mul_(0.8)
    target = update.target_values(rows, rows.next_obs, 1, torch.Generator().manual_seed(3))
    with torch.no_grad():

        def values(critics, rows=rows):
            if algorithm == "discrete SAC":
                return torch.stack([one[torch.arange(N), rows.actions] for one in critics.outputs(rows.obs)])
            return critics.outputs(torch.cat([rows.obs, rows.actions], dim=1)).mean(dim=-1)

        errors, others = values(networks.critics) - target, values(networks.targets) - target
    expected = {
        "mean_error": errors.abs().mean(dim=0),
        "largest_error": errors.abs().max(dim=0).values,
        "reducible_loss": (errors**2).mean(dim=0) - (others**2).mean(dim=0),
    }
    before = copy.deepcopy(networks.state_dict())
    found = update.score(rows, NAMES, torch.Generator().manual_seed(3))
    assert all(torch.equal(value, before[name]) for name, value in networks.state_dict().items())
    assert found.keys() == NAMES <= update.offers
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    update.scores_wanted = NAMES
    result = update.update(Batch(rows, torch.ones(N).double()), torch.Generator().manual_seed(3))
    torch.testing.assert_close(result.scores, expected, rtol=1e-9, atol=1e-11)
    update.scores_wanted = frozenset()
    assert result.scores.keys() == NAMES
    assert not update.update(Batch(rows, torch.ones(N).double()), torch.Generator().manual_seed(3)).scores


def test_a_learned_encoder_of_the_targets_encodes_rows_for_their_values():
    networks = make("SAC", encoder=True)
    networks.target_encoder[0].weight.data.mul_(0.5)
    update, rows = SACUpdate(networks, target_entropy=-3.0), batch()
    target = update.target_values(rows, networks.encoder(rows.next_obs).detach(), 1, torch.Generator().manual_seed(3))
    with torch.no_grad():
        seen = [encoder(rows.obs) for encoder in (networks.encoder, networks.target_encoder)]
        errors, others = (
            critics.outputs(torch.cat([obs, rows.actions], dim=1)).squeeze(-1) - target
            for critics, obs in zip((networks.critics, networks.targets), seen, strict=True)
        )
    found = update.score(rows, NAMES, torch.Generator().manual_seed(3))["reducible_loss"]
    torch.testing.assert_close(found, (errors**2).mean(dim=0) - (others**2).mean(dim=0))


class Mine(CriticLoss):
    def __init__(self, values):
        self.values_of = values

    def values(self, errors):
        return self.values_of(errors)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda errors: errors.square().mean(), r"returns shape \(\) for errors \(2, 3\)"),
        (lambda errors: errors.square().mean(0), r"returns shape \(3,\) for errors \(2, 3\)"),
        (lambda errors: errors.detach().square(), "returns values without a gradient"),
        (lambda errors: None, "returns a NoneType"),
        (lambda errors: errors.mul_(errors), "failed for errors .* in-place operation"),
    ],
)
def test_an_invalid_loss_of_a_user_is_rejected(values, message):
    with pytest.raises(ValueError, match=f"critic_loss Mine {message}"):
        make_loss(Mine(values))
    valid = Mine(torch.square)
    assert make_loss(valid) is valid
