"""Compiled updates equal updates that are not compiled; unsupported ones raise clear errors."""

import pytest
import torch
from builders import make

from interreplay import Mix
from interreplay.errors import UsageError
from interreplay.learning.actor_critic import compilation
from interreplay.learning.actor_critic.discrete_sac import DiscreteSACNetworks, DiscreteSACUpdate
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.actor_critic.td3 import DeterministicNetworks, TD3Update
from interreplay.learning.actor_critic.tqc import TQCNetworks, TQCUpdate
from interreplay.learning.losses import Huber, Squared
from interreplay.learning.settings import DDPGSettings, SACSettings, TQCSettings
from interreplay.learning.update import LARGEST_ERROR, Batch
from tests.learning import batches
from tests.learning.batches import ACTIONS, OBS, N

CASES = {
    "SAC": (SACNetworks, SACUpdate, {}),
    "residual critics": (SACNetworks, SACUpdate, {"critic_blocks": 1, "critic_width": 8, "critic_target": "mean"}),
    "TD3": (DeterministicNetworks, TD3Update, {"huber_delta": 0.5, "n_critics": 1, "critic_layer_norm": True}),
    "DDPG": (DeterministicNetworks, TD3Update, {"settings": DDPGSettings()}),
    "TQC": (TQCNetworks, TQCUpdate, {"settings": TQCSettings()}),
    "discrete SAC": (DiscreteSACNetworks, DiscreteSACUpdate, {"backup_entropy": False}),
}


def batch(discrete, seed):
    rng = torch.Generator().manual_seed(seed)
    given = batches.batch(seed, discrete)
    rows = given.map(lambda column: column.float() if column.is_floating_point() else column)
    weights = torch.rand(N, generator=rng) + 0.5
    if seed == 0:
        return Batch(rows, weights)
    if seed == 1:
        return Batch(rows, weights, row_weights=weights / weights.mean(), critic_loss=Huber(0.3))
    return Batch(rows, weights, targets=torch.randn(N, generator=rng))


TRACED = ("residual critics", "TD3", "DDPG")
"""Cases whose programs are traced and not compiled, because compiling takes seconds."""


@pytest.fixture
def only_traced(monkeypatch):
    """Execute traced programs with the guards of compiled ones, but without machine code."""
    plain = torch.compile

    def traced(function, options, isolate_recompiles, **others):
        guards = {name: value for name, value in options.items() if name == "guard_filter_fn"}
        return plain(function, backend="eager", options=guards, isolate_recompiles=isolate_recompiles, **others)

    monkeypatch.setattr(torch, "compile", traced)


def counted(update, program, calls):
    """Record each call of a compiled program of the update in `calls`."""
    plain = getattr(update, program)

    def call(*given):
        calls.append(program)
        return plain(*given)

    setattr(update, program, call)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_compiled_update_equals_one_that_is_not(name, request):
    if name in TRACED:
        request.getfixturevalue("only_traced")
    networks_class, update_class, settings = CASES[name]
    shape = {"critic_blocks": "critic_blocks", "critic_width": "critic_width", "critic_layer_norm": "layer_norm"}
    options = {shape[key]: value for key, value in settings.items() if key in shape}
    critics = 1 if name == "DDPG" else settings.get("n_critics", 2)
    results = {}
    for compiled in (False, True):
        torch.manual_seed(0)
        networks = networks_class(OBS, ACTIONS, (16, 16), critics=critics, **options)
        update = update_class(networks, torch_compile=compiled, **settings)
        update.scores_wanted = frozenset({LARGEST_ERROR})
        rng = torch.Generator().manual_seed(0)
        calls = []
        for program in ("compiled_critic_gradients", "compiled_policy_gradients") if compiled else ():
            counted(update, program, calls)
        results[compiled] = []
        for seed in (0, 1, 2, 0, 1, 2):
            done = update.update(batch(name == "discrete SAC", seed), rng)
            results[compiled] += [done.errors, done.metrics, done.scores[LARGEST_ERROR]]
        assert calls.count("compiled_critic_gradients") == 2 * compiled, "own losses and targets are not compiled"
        assert calls.count("compiled_policy_gradients") == 6 // update.settings.policy_delay * compiled
        results[compiled] += [*networks.parameters(), torch.rand(1, generator=rng)]
    torch.testing.assert_close(results[False], results[True], rtol=1e-4, atol=1e-5)
    assert torch.equal(results[False][-1], results[True][-1]), "both draw the same numbers"


@pytest.mark.slow
def test_two_updates_of_one_class_use_their_own_programs(only_traced):
    """Programs do not check the attributes of their update."""
    errors = {}
    for compiled in (False, True):
        updates = []
        for settings in ({}, {"critic_target": "mean", "backup_entropy": False}):
            torch.manual_seed(0)
            updates.append(SACUpdate(SACNetworks(OBS, ACTIONS, (16,)), torch_compile=compiled, **settings))
        rng = torch.Generator().manual_seed(0)
        errors[compiled] = [update.update(batch(False, 0), rng).errors for _ in range(2) for update in updates]
    assert not torch.allclose(errors[False][0], errors[False][1], atol=1e-2), "the settings matter"
    torch.testing.assert_close(errors[False], errors[True], rtol=1e-4, atol=1e-5)


class Growing(Squared):
    """A loss whose scale changes between updates."""

    scale = 1.0

    def values(self, errors):
        return self.scale * super().values(errors)


@pytest.mark.slow
def test_a_changed_attribute_of_an_own_loss_is_followed(only_traced):
    results = {}
    for compiled in (False, True):
        torch.manual_seed(0)
        loss = Growing()
        update = SACUpdate(SACNetworks(OBS, ACTIONS, (8,)), torch_compile=compiled, critic_loss=loss)
        rng = torch.Generator().manual_seed(0)
        results[compiled] = []
        for loss.scale in (1.0, 5.0):
            results[compiled].append(update.update(batch(False, 0), rng).metrics[0])
    assert torch.allclose(torch.stack(results[False]), torch.stack(results[True]), rtol=1e-4)


@pytest.mark.slow
def test_batches_of_several_sources_can_be_compiled(only_traced):
    results = []
    for compiled in (False, True):
        mix = Mix({"one": "Uniform", "other": "NMER"}, capacity=50, seed=0)
        mix.add(make(50, obs_shape=(OBS,), action_shape=(ACTIONS,)))
        torch.manual_seed(0)
        update = SACUpdate(SACNetworks(OBS, ACTIONS, (8,)), torch_compile=compiled)
        results.append(update.update(mix.sample(N), torch.Generator().manual_seed(0)))
    assert torch.allclose(results[0].errors, results[1].errors, atol=1e-5)


@pytest.mark.parametrize("settings", [{"critic_dropout": 0.1}, {"n_critics": 3, "target_subset": 2}])
def test_random_critics_are_rejected(settings):
    with pytest.raises(ValueError, match="torch_compile is true and .*; expected false, or an update that draws"):
        SACSettings(torch_compile=True, **settings)


def test_an_encoder_that_learns_is_rejected():
    networks = SACNetworks(OBS, ACTIONS, (16, 16))
    networks.encoder = torch.nn.Linear(OBS, OBS)
    networks.target_encoder = torch.nn.Linear(OBS, OBS)
    with pytest.raises(ValueError, match="torch_compile is true; expected false with an encoder that learns"):
        SACUpdate(networks, torch_compile=True)


def test_an_old_pytorch_and_a_missing_compiler_are_one_line(monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(compilation.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(compilation.shutil, "which", lambda name: name)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "compile", lambda model, *, fullgraph: model)
        patch.setattr(torch, "__version__", "2.9.1")
        with pytest.raises(UsageError, match=r"requires PyTorch 2.13 or newer; PyTorch 2.9.1 is installed"):
            compilation.compiled(abs, torch.device("cpu"))
    (tmp_path / "Python.h").unlink()
    with pytest.raises(UsageError, match="torch_compile needs Python's headers"):
        compilation.compiled(abs, torch.device("cpu"))
    monkeypatch.setattr(compilation.shutil, "which", lambda name: None)
    with pytest.raises(
        UsageError, match=r"torch_compile needs a C\+\+ compiler: g\+\+, clang\+\+, cl, or one that CXX"
    ):
        compilation.compiled(abs, torch.device("cpu"))
