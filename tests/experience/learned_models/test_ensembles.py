"""Ensembles: losses, bfloat16 products, dropout, early stopping, restored weights and elites."""

import math

import numpy as np
import pytest
import torch

from interreplay.experience.learned_models import ensembles
from interreplay.experience.learned_models.ensembles import (
    EarlyStopping,
    FitSettings,
    Networks,
    adam,
    copy_adam,
    ensemble_losses,
    fit,
    holdout_errors,
    log_variances,
    split,
)

SIZES = [4, 6, 5, 7]


def networks(bounds=0, dropout=0.0, members=3, sizes=None, seed=0, double=True):
    sizes = sizes or [*SIZES, 2 * bounds or 3]
    made = Networks(members, sizes, np.random.default_rng(seed), bounds, dropout)
    generator = torch.Generator().manual_seed(seed)
    for name in ("weights", "biases", "bounds"):
        values = [v.double() if double else v for v in getattr(made, name)]
        noisy = [v + 0.3 * torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in values]
        setattr(made, name, noisy)
    return made


def naive(made, member, rows, masks=None):
    """Return the outputs of one member, layer by layer."""
    for i, (weight, bias) in enumerate(zip(made.weights, made.biases, strict=True)):
        rows = rows @ weight[member] + bias[member]
        if i < len(made.weights) - 1:
            rows = rows / (1 + torch.exp(-rows))
            rows = rows if masks is None or masks[i] is None else rows * masks[i][member]
    return rows


def naive_loss(made, member, rows, targets, masks=None):
    out = naive(made, member, rows, masks)
    if not made.bounds:
        return ((out - targets) ** 2).mean()
    mean, raw = out.chunk(2, dim=1)
    highest, lowest = (bound[member] for bound in made.bounds)
    value = highest - torch.log1p(torch.exp(highest - raw))
    value = lowest + torch.log1p(torch.exp(value - lowest))
    likelihood = torch.distributions.Normal(mean, torch.exp(value / 2)).log_prob(targets)
    # Twice the negative log-likelihood without its constant, and the spread of the bounds.
    return (-2 * likelihood - math.log(2 * math.pi)).mean() + 0.01 * (highest - lowest).sum()


def losses_and_gradients(networks, rows, targets, dropped=None):
    tensors = [values.requires_grad_() for values in networks.tensors]
    losses = ensemble_losses(networks, rows, targets, dropped)
    return losses.detach(), torch.autograd.grad(losses.sum(), tensors)


@pytest.mark.parametrize(("bounds", "dropout"), [(3, 0.0), (0, 0.4)])
def test_losses_and_gradients_equal_those_of_separate_networks(bounds, dropout):
    made, rng = networks(bounds, dropout), torch.Generator().manual_seed(1)
    rows, targets = (torch.randn(3, 9, width, generator=rng, dtype=torch.float64) for width in (4, 3))
    masks = made.draw_dropped(9, rng)
    assert masks is None or masks[1].dtype == torch.float64
    found, gradients = losses_and_gradients(made, rows, targets, masks)
    losses = torch.stack([naive_loss(made, j, rows[j], targets[j], masks) for j in range(3)])
    expected = torch.autograd.grad(losses.sum(), made.tensors)
    assert torch.allclose(found, losses, rtol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_bfloat16_products_differ_by_rounding_only(dropout):
    made, rng = networks(3, dropout, sizes=[4, 40, 40, 40, 6], double=False), torch.Generator().manual_seed(1)
    rows, targets = (torch.randn(3, 50, width, generator=rng) for width in (4, 3))
    masks = made.draw_dropped(50, rng)
    losses, exact = losses_and_gradients(made, rows, targets, masks)
    made.matrix_dtype = torch.bfloat16
    rough_losses, rough = losses_and_gradients(made, rows, targets, masks)
    assert torch.allclose(losses, rough_losses, rtol=0.02) and not torch.equal(losses, rough_losses)
    for one, other in zip(exact, rough, strict=True):
        assert other.dtype == torch.float32 and (one - other).norm() < 0.06 * one.norm()


def test_log_variances_are_clamped_softly():
    raw = torch.tensor([-1e4, -30.0, -5.0, 0.0, 30.0, 1e4], dtype=torch.float64).view(1, -1, 1)
    highest, lowest = (torch.full((1, 1, 1), bound, dtype=torch.float64) for bound in (0.5, -10.0))
    found = log_variances(raw, highest, lowest).flatten()
    expected = [-10.0, -10.0, -5.0, 0.5 - math.log1p(math.exp(0.5)), 0.5, 0.5]
    assert found.tolist() == pytest.approx(expected, abs=0.02)
    # The upper bound comes first, and the lower one lifts it by its own softness.
    assert (found.diff() >= 0).all() and found[0] == -10 and 0.5 < found[-1] <= 0.5 + math.log1p(math.exp(-10.5)) + 1e-9


def test_dropout_keeps_the_mean_and_spares_the_first_layer():
    made = networks(dropout=0.25, sizes=[4, 50, 60, 3], double=False)
    first, second = made.draw_dropped(400, torch.Generator().manual_seed(0))
    assert first is None and second.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(second.mean()) == pytest.approx(1.0, abs=0.01)
    zeros = (second == 0).float()  # 3·400·60 numbers; a quarter is dropped independently
    assert (zeros.mean(dim=1) - 0.25).abs().max() < 0.1 and (zeros.view(-1, 4).mean(dim=0) - 0.25).abs().max() < 0.02
    pairs = zeros.flatten()[:-1] * zeros.flatten()[1:]
    assert float(pairs.mean()) == pytest.approx(0.0625, abs=0.01)
    assert networks(0).draw_dropped(4, torch.Generator()) is None


def test_weight_decays_and_moments_follow_the_members_that_are_kept():
    decays = [group["weight_decay"] for group in adam(networks(2, double=False), 0.01).param_groups]
    assert decays == [2.5e-5, 5e-5, 7.5e-5, 1e-4, *[0.0] * 6]
    kept = torch.tensor([0, 2])
    whole, part = networks(2, double=False), networks(2, double=False).copy_members(kept)
    optimizer, oracle = adam(whole, 0.01), adam(part, 0.01)
    for step in range(4):
        if step == 2:
            whole = whole.copy_members(kept)
            optimizer = copy_adam(optimizer, whole, kept)
        for made, of in ((whole, optimizer), (part, oracle)):
            for values in made.tensors:
                values.grad = torch.sin(values.detach() * 9 + step)
            of.step()
    assert all(torch.allclose(one, other) for one, other in zip(whole.tensors, part.tensors, strict=True))


def test_early_stopping_finds_the_best_epoch():
    curves = np.array(
        [
            [9, 5, 4, 3, 3.5, 3.4, 3.3, 1, 1, 1],  # stops after epoch 6, three after the best, before the 1
            [9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5],
            [9, 5, 4.99, 4.98, 4.97, 1, 1, 1, 1, 1],  # an improvement below 1 % does not count, but is kept
        ]
    )
    stopping, stopped_at = EarlyStopping(3, patience=3), np.full(3, -1)
    for epoch, errors in enumerate(curves.T):
        better = stopping.observe(errors)
        assert better.tolist() == [
            bool(errors[j] < curves[j, :epoch].min(initial=np.inf)) and stopped_at[j] < 0 for j in range(3)
        ]
        stopped_at[stopping.stopped & (stopped_at < 0)] = epoch
    assert stopped_at.tolist() == [6, -1, 4]
    assert stopping.best.tolist() == [3, 0.5, 4.97]


def data(rows, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, 4)).astype(np.float32)
    exact = np.stack([inputs[:, 0] * inputs[:, 1], np.sin(inputs[:, 2]), inputs[:, 3]], 1)
    outputs = exact + noise * rng.normal(size=(rows, 3))
    return torch.from_numpy(inputs), torch.from_numpy(outputs.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [3, 0])
def test_fit_restores_the_best_weights_of_each_member(bounds, monkeypatch):
    made = Networks(4, [4, 32, 32, 6 if bounds else 3], np.random.default_rng(0), bounds)
    inputs, targets = data(60, noise=0.5)  # few and noisy rows are overfitted soon
    rng = np.random.default_rng(1)
    held = split(60, 0.3, rng)[1]
    trained = []

    def counted(networks, *arguments, **options):
        trained.append(len(networks))
        EPOCH(networks, *arguments, **options)

    monkeypatch.setattr(ensembles, "epoch", counted)
    found = fit(made, inputs, targets, held, FitSettings(batch_size=10, patience=4, learning_rate=0.01), rng)
    curve = np.array(found.curve)
    assert np.allclose(holdout_errors(made, inputs[held], targets[held]).numpy(), found.errors, rtol=1e-6)
    assert np.array_equal(found.errors, curve.min(axis=0)) and (curve.argmin(axis=0) < found.epochs - 1).all()
    assert trained[0] == 4 > trained[-1] > 0 and trained == sorted(
        trained, reverse=True
    )  # stopped members are not trained


EPOCH = ensembles.epoch


@pytest.mark.slow
def test_fit_without_improvement_keeps_the_initial_weights():
    made = Networks(2, [4, 16, 3], np.random.default_rng(0))
    inputs, targets = data(400)
    held = split(400, 0.2, np.random.default_rng(0))[1]
    fit(made, inputs, targets, held, FitSettings(batch_size=50, max_epochs=60), np.random.default_rng(1))
    before = [values.clone() for values in made.tensors]
    found = fit(made, inputs, targets, held, FitSettings(learning_rate=3.0, patience=2), np.random.default_rng(1))
    assert (np.array(found.curve[:-1]) > found.errors).all() and found.epochs == 50  # two batches each
    assert all(torch.equal(one, other) for one, other in zip(before, made.tensors, strict=True))


def test_split_uses_each_row_once():
    learned, held = split(103, 0.2, np.random.default_rng(0))
    assert len(held) == 20 and sorted([*learned.tolist(), *held.tolist()]) == list(range(103))
    assert [len(part) for part in split(2, 0.01, np.random.default_rng(0))] == [1, 1]
    with pytest.raises(ValueError, match="cannot fit a model to 1 rows; expected at least 2"):
        split(1, 0.2, np.random.default_rng(0))


def test_patience_lasts_at_least_a_hundred_steps():
    settings = FitSettings(batch_size=256, patience=5)
    rows = (1, 256, 257, 600, 8_000, 100_000)
    assert list(map(settings.patience_in_epochs, rows)) == [100, 100, 50, 34, 5, 5]


def test_initial_weights_are_truncated():
    made = Networks(3, [50, 40, 2], np.random.default_rng(0), bounds=1)
    weights = made.weights[0]
    assert float(weights.abs().max()) <= 50**-0.5 and float(weights.std()) == pytest.approx(0.44 * 50**-0.5, rel=0.05)
