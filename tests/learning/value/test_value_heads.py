"""Heads of value networks in float64: projections and losses compared with loops, gradients with autograd."""

import pytest
import torch
from torch import nn

from interreplay.learning.value.value_heads import Categorical, Mean, Quantiles

pytestmark = pytest.mark.usefixtures("float64")


HEADS = {
    "mean": lambda: Mean(0.7),
    "square": lambda: Mean(None),
    "categorical": lambda: Categorical(7, -3.0, 2.0),
    "quantiles": lambda: Quantiles(5, kappa=0.4),
}


def rows(head, seed=0, n=40):
    g = torch.Generator().manual_seed(seed)
    following, rewards = torch.randn(n, head.numbers, generator=g), 2 * torch.randn(n, generator=g)
    return following, rewards, 0.9 * (torch.rand(n, generator=g) < 0.7)


def naive_projection(head, following, rewards, discounts):
    """m_i = Σ_j [1 − |clip(r + γ z_j) − z_i| / Δz]₀¹ p_j, one number at a time."""
    p, n = following.softmax(dim=-1), head.numbers
    gap = (head.high - head.low) / (n - 1)
    mass = torch.zeros(len(p), n)
    for row in range(len(p)):
        for i in range(n):
            for j in range(n):
                z_i, z_j = head.low + i * gap, head.low + j * gap
                place = min(max(float(rewards[row] + discounts[row] * z_j), head.low), head.high)
                mass[row, i] += max(0.0, 1 - abs(place - z_i) / gap) * p[row, j]
    return mass


@pytest.mark.parametrize("reward", [-100.0, -10.0, -9.0, -0.4, 0.0, 1.0, 3.3, 9.9999, 10.0, 100.0])
@pytest.mark.parametrize("discount", [0.0, 0.99, 1.0])
def test_mass_is_conserved_on_atoms_between_them_and_at_both_bounds(reward, discount):
    head = Categorical(21, -10.0, 10.0)
    following = torch.randn(2, 21, generator=torch.Generator().manual_seed(3))
    given = following, torch.full((2,), reward), torch.full((2,), discount)
    mass = head.target(*given)
    assert (mass >= 0).all()
    torch.testing.assert_close(mass.sum(dim=-1), torch.ones(2), rtol=0, atol=1e-14)
    torch.testing.assert_close(mass, naive_projection(head, *given), rtol=0, atol=1e-11)


def test_mass_is_conserved_in_float32():
    torch.set_default_dtype(torch.float32)
    head = Categorical(51, -10.0, 10.0)
    mass = head.target(torch.randn(5_000, 51), 20 * torch.randn(5_000), torch.full((5_000,), 0.99))
    assert (mass.sum(dim=-1) - 1).abs().max() < 1e-5 and mass.min() >= 0


def test_the_value_of_a_distribution_is_its_mean_not_its_mode():
    head = Categorical(3, -1.0, 3.0)
    outputs = torch.log(torch.tensor([[0.45, 0.1, 0.45], [0.0001, 0.9998, 0.0001], [0.5, 0.4999, 0.0001]]))
    torch.testing.assert_close(head.values(outputs), torch.tensor([1.0, 1.0, -0.5 + 0.4999 + 0.0003]))
    # The first action's likeliest returns are as low as high, the third's mode is the lowest one.
    assert head.values(torch.stack([outputs[2], outputs[0]])).argmax() == 1
    torch.testing.assert_close(Quantiles(3).values(torch.tensor([[0.0, 1.0, 5.0]])), torch.tensor([2.0]))


def defined_losses(head, chosen, target):
    """Return the losses by definition, differentiated by autograd."""
    if isinstance(head, Quantiles):
        pairs = target.unsqueeze(1) - chosen.unsqueeze(2)  # (n, predictions, targets)
        weights = (head.levels.unsqueeze(-1) - (pairs.detach() < 0).to(pairs.dtype)).abs()
        huber = nn.functional.huber_loss(pairs, torch.zeros_like(pairs), reduction="none", delta=head.kappa)
        return (weights * huber).mean(dim=2).sum(dim=1) / head.kappa
    if isinstance(head, Categorical):
        return -(target * chosen.softmax(dim=-1).log()).sum(dim=-1)
    errors = (chosen - target).squeeze(-1)
    if head.huber_delta is None:
        return 0.5 * errors.square()
    beyond = errors.abs().clamp(min=head.huber_delta) - head.huber_delta
    return 0.5 * errors.square() - 0.5 * beyond.square()


@pytest.mark.parametrize("name", HEADS)
def test_losses_and_gradients_are_those_of_their_definitions(name):
    head = HEADS[name]()
    target = head.target(*rows(head))
    chosen = torch.randn(40, head.numbers, generator=torch.Generator().manual_seed(1), requires_grad=True)
    weights = torch.rand(40)
    expected, found = defined_losses(head, chosen, target), head.compare(chosen, target).losses
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((weights * losses).sum(), chosen)[0] for losses in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_sorted_sums_are_pairs_also_in_float32_and_where_targets_are_equal():
    torch.set_default_dtype(torch.float32)
    head, g = Quantiles(200), torch.Generator().manual_seed(0)
    for scale, shift in ((0.1, 0.0), (1.0, 50.0), (30.0, -1_000.0)):
        chosen, target = (scale * torch.randn(8, 200, generator=g) + shift for _ in range(2))
        target[:, ::2] = target[:, 1::2]
        target[0], chosen[1] = shift, target[1]
        chosen.requires_grad_()
        expected, found = defined_losses(head, chosen, target), head.compare(chosen, target).losses
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        gradients = [torch.autograd.grad(losses.sum(), chosen)[0] for losses in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_targets_of_ended_episodes_are_rewards(name):
    head = HEADS[name]()
    following, rewards, _ = rows(head)
    target = head.target(following, rewards.clamp(-3, 2), torch.zeros(40))
    mean = target @ head.support if name == "categorical" else target.mean(dim=-1)
    torch.testing.assert_close(mean, rewards.clamp(-3, 2))


def test_priorities_vanish_at_the_optimum():
    """A cross entropy would not: it is the target's entropy there."""
    head = Categorical(7, -3.0, 2.0)
    target = head.target(*rows(head))
    optimum = target.log().clamp(min=-800.0)
    assert head.compare(optimum, target).errors.abs().max() < 1e-12
    assert head.compare(optimum, target).losses.mean() > 0.1
    assert (head.compare(torch.randn(40, 7), target).errors > 0).all()
    certain = torch.full((1, 5), 2.0)
    assert Quantiles(5).compare(certain, certain).errors == 0 == Mean().compare(certain[:, :1], certain[:, :1]).errors


def test_errors_are_one_per_row():
    for make in HEADS.values():
        head = make()
        following, rewards, discounts = rows(head)
        target = head.target(following, rewards, discounts)
        assert target.shape == (40, head.numbers)
        found = head.compare(following, target)
        assert found.errors.shape == found.losses.shape == (40,)
        assert head.values(torch.randn(4, 3, head.numbers)).shape == (4, 3)
