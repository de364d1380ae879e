"""Networks of listed layers: bit-equal to built-in ones, otherwise equal to plain PyTorch, with clear errors."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from interreplay.learning.algorithms_table import ALGORITHMS, get_architecture
from interreplay.learning.architectures import ARCHITECTURES, assemble, build_encoder, resolve_model
from interreplay.learning.listed.layers import LayerList, LayerStack
from interreplay.learning.listed.networks import ListedPolicyValue, ListedValues, make_plain_layers
from interreplay.learning.settings import DDPGSettings, SACSettings, TD3Settings, TQCSettings

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
PIXELS = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
ACTIONS = {"box": gym.spaces.Box(-1, 1, (2,), np.float32), "discrete": gym.spaces.Discrete(3)}


def linear(*widths, activation="ReLU", norm=False, kind="Linear"):
    """Return a list of hidden layers of these widths, and a last layer."""
    size = "outputs" if kind == "NoisyLinear" else "out_features"
    found = []
    for width in widths:
        found += [{"layer": kind, size: width}, *(["LayerNorm"] if norm else []), activation]
    return [*found, kind]


CONVOLUTIONS = [
    *({"layer": "Conv2d", "out_channels": 32, "kernel_size": 8, "stride": 4}, "ReLU"),
    *({"layer": "Conv2d", "out_channels": 64, "kernel_size": 4, "stride": 2}, "ReLU"),
    *({"layer": "Conv2d", "out_channels": 64, "kernel_size": 3, "stride": 1}, "ReLU", "Flatten"),
]


def made(trainer, space=BOX, actions="box", seed=0, **settings):
    """Return the networks of an algorithm."""
    architecture = ARCHITECTURES[get_architecture(trainer)]
    model = {"matrix_dtype": "float32", "normalize_observations": False} | ALGORITHMS[trainer].defaults | settings
    model = resolve_model(architecture, space, model)
    torch.manual_seed(seed)
    encoder, width = build_encoder(space, model)
    return assemble(architecture.make(width, ACTIONS[actions], model, False), encoder, model)


TANH = linear(8, activation="Tanh")
NOISY = linear(6, kind="NoisyLinear")
LSTM = [{"layer": "LSTM", "hidden_size": 5}]
UNSHARED = {"hiddens": (8,), "lstm_cells": 5, "shared_layers": False}
SAME = [
    ("SAC", {"actor": linear(8, 6), "critic": linear(8, 6)}, {"hiddens": (8, 6)}),
    ("TQC", {"actor": linear(8), "critic": linear(8)}, {"hiddens": (8,)}),
    ("TD3", {"actor": TANH, "critic": TANH}, {"hiddens": (8,), "activation": "tanh"}),
    ("DDPG", {"actor": linear(8), "critic": linear(8, norm=True)}, {"hiddens": (8,), "critic_layer_norm": True}),
    ("CrossQ", {"critic": linear(9), "actor": linear(8)}, {"hiddens": (8,), "critic_hiddens": (9,)}),
    ("DQN", {"q": linear(8, 6)}, {"hiddens": (8, 6)}),
    ("DQN", {"features": linear(8)[:-1], "q": linear(6)}, {"hiddens": (8, 6)}),
    ("DuelingDQN", {"features": linear(8)[:-1], "value": linear(6), "advantage": linear(6)}, {"hiddens": (8, 6)}),
    ("Rainbow", {"value": NOISY, "advantage": NOISY}, {"hiddens": (6,)}),
    ("NoisyDQN", {"q": NOISY}, {"hiddens": (6,)}),
    ("DQN", {"features": CONVOLUTIONS, "q": linear(16)}, {"hiddens": (16,), "encoder": "nature"}),
    ("IMPALA", {"features": linear(8)[:-1], "actor": ["Linear"], "critic": ["Linear"]}, {"hiddens": (8,)}),
    ("A2C", {"actor": TANH, "critic": TANH}, {"hiddens": (8,)}),
    ("IMPALA", {"features": LSTM, "actor": linear(8), "critic": linear(8)}, UNSHARED),
]


@pytest.mark.parametrize(("trainer", "network", "settings"), SAME)
def test_layers_of_a_built_in_network_are_that_network(trainer, network, settings):
    actions = "box" if ALGORITHMS[trainer].actions[0] is gym.spaces.Box else "discrete"
    space = PIXELS if "encoder" in settings else BOX
    listed, built_in = made(trainer, space, actions, network=network), made(trainer, space, actions, **settings)
    assert [type(module) for module in listed.modules()] == [type(module) for module in built_in.modules()]
    for one, other in zip(listed.state_dict().items(), built_in.state_dict().items(), strict=True):
        assert one[0] == other[0] and torch.equal(one[1], other[1])


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("networks", [None, [1], torch.tensor([2, 0])])
def test_stacks_are_loops_over_plain_modules(networks, frozen):
    layers = [{"layer": "Linear", "out_features": 5}, "ELU", "LayerNorm", "Linear"]
    stack = LayerStack(3, layers, 4, 2, "network.critic")
    rows = torch.randn(6, 4, requires_grad=True)
    chosen = range(3) if networks is None else [int(i) for i in networks]
    plain = []
    for i in chosen:
        first, _, norm, last = stack.networks[i].layers
        hidden = nn.functional.elu(rows @ first.weight.T + first.bias)
        plain.append(nn.functional.layer_norm(hidden, (5,), norm.weight, norm.bias) @ last.weight.T + last.bias)
    found = stack.outputs([rows[:, :3], rows[:, 3:]], None, networks, frozen)
    assert torch.allclose(found, torch.stack(plain), atol=1e-6)
    found.sum().backward()
    assert rows.grad.abs().sum() > 0
    for i in range(3):
        assert all((p.grad is None) == (frozen or i not in chosen) for p in stack.networks[i].parameters())


def test_last_layers_of_ddpg_start_within_its_bound_and_are_reset_to_it():
    layers = linear(64, activation="ELU")
    networks = made("DDPG", network={"actor": layers, "critic": layers})
    for reset in (lambda: None, lambda: networks.reset(torch.Generator().manual_seed(0))):
        reset()
        for one, target in ((networks.actor.body, networks.target_actor.body), (networks.critics, networks.targets)):
            assert 0.0 < max(float(parameter.detach().abs().max()) for parameter in one.last_parameters()) <= 3e-3
            assert float(next(one.parameters()).abs().max()) > 3e-3
            assert all(map(torch.equal, one.parameters(), target.parameters()))


def test_resets_follow_the_generator():
    stack = LayerStack(2, linear(8), 4, 3, "x")
    before = [p.clone() for p in stack.parameters()]
    found = []
    for _ in range(2):
        stack.reset(torch.Generator().manual_seed(3))
        found.append([p.clone() for p in stack.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(found[0], before, strict=True))


class OwnWeights(nn.Module):
    """A layer without `reset_parameters`, after another one whose `reset_parameters` is incomplete."""

    def __init__(self, in_features):
        super().__init__()
        self.attention = nn.MultiheadAttention(in_features, 1)
        self.scale = nn.Parameter(torch.randn(in_features))

    def forward(self, rows):
        return self.attention(rows, rows, rows)[0] * self.scale


@pytest.mark.parametrize("trainer", ["SAC", "TD3"])
def test_resets_draw_parameters_of_own_layers_again(trainer):
    layers = [{"layer": f"{__name__}:OwnWeights"}, *linear(4, activation="ELU")]
    networks = made(trainer, network={"actor": layers, "critic": layers})
    assert isinstance(networks.actor.body, LayerStack) and isinstance(networks.critics, LayerStack)
    before = {name: parameter.clone() for name, parameter in networks.named_parameters()}
    networks.reset(torch.Generator().manual_seed(3))
    for name, parameter in networks.named_parameters():
        if name.endswith(("scale", "in_proj_weight", "layers.1.weight")):
            assert not torch.equal(parameter, before[name]), name
    assert all(map(torch.equal, networks.critics.parameters(), networks.targets.parameters()))


def test_dueling_streams_are_their_formula_with_and_without_noise():
    network = {
        "features": [{"layer": "Linear", "out_features": 6}, "ELU"],
        "value": [{"layer": "NoisyLinear", "outputs": 5}, "NoisyLinear"],
        "advantage": [{"layer": "Linear", "out_features": 4}, "ReLU", "NoisyLinear"],
    }
    layers = ListedValues(network, 3, actions=2, numbers=7)
    rows, rng = torch.randn(9, 3), torch.Generator().manual_seed(1)
    drawn = layers.draw_noise(rng)
    assert len(drawn) == 3 and layers.noisy
    for noise in (None, drawn):
        features = layers.features(rows)
        one, two, three = noise or (None, None, None)
        first, last = layers.streams["value"].layers
        values = last(first(features, one), two).view(9, 1, 7)
        hidden, relu, end = layers.streams["advantage"].layers
        advantages = end(relu(hidden(features)), three).view(9, 2, 7)
        expected = values + advantages - advantages.mean(dim=1, keepdim=True)
        assert torch.allclose(layers.outputs(rows, noise), expected, atol=1e-6)


def test_policy_and_value_are_side_by_side():
    network = {"features": [{"layer": "Linear", "out_features": 6}, "ELU"], "actor": ["Linear"], "critic": linear(4)}
    layers = ListedPolicyValue(network, 3, 2)
    rows = torch.randn(5, 3)
    actor, critic = layers.bodies
    features = layers.features(rows)
    assert torch.equal(layers.outputs(rows), torch.cat([actor(features), critic(features)], dim=1))


def test_listed_images_are_encoded():
    network = {"features": [{"layer": "Conv2d", "out_channels": 3, "kernel_size": 9, "stride": 5}, "ELU", "Flatten"]}
    networks = made("DQN", PIXELS, "discrete", network=network | {"q": ["Linear"]})
    images = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    conv = networks.encoder.layers.layers[0]
    expected = nn.functional.elu(nn.functional.conv2d(images / 255.0, conv.weight, conv.bias, 5)).flatten(1)
    assert torch.allclose(networks.encoder(images), expected, atol=1e-6)
    assert networks.actor.output(networks.encoder(images)).shape == (2, 3)


@pytest.mark.parametrize("trainer", ["SAC", "TD3", "IMPALA"])
def test_layers_after_built_in_convolutions_are_in_the_encoder(trainer):
    features = [*CONVOLUTIONS, {"layer": "Linear", "out_features": 7}, "LayerNorm", "Tanh"]
    network = {"features": features}
    if trainer == "IMPALA":
        network = {"features": features + LSTM, "actor": linear(6), "critic": linear(6)}
    networks = made(trainer, PIXELS, network=network)
    found = networks.encoder(torch.zeros(2, 4, 84, 84, dtype=torch.uint8))
    assert found.shape == (2, 7) and found.abs().max() < 1.0
    if trainer == "IMPALA":
        assert networks.actor.memory.cell.input_size == 7
    else:
        assert networks.actor.output(found).shape[0] == 2


@pytest.mark.parametrize("dtype", [bool, np.uint8])
@pytest.mark.parametrize("trainer", ["DQN", "SAC", "IMPALA"])
def test_small_images_reach_listed_convolutions(trainer, dtype):
    space = gym.spaces.Box(0, 1 if dtype is bool else 255, (4, 10, 10), dtype)
    streams = {"DQN": {"q": ["Linear"]}, "IMPALA": {"actor": ["Linear"], "critic": ["Linear"]}, "SAC": {}}[trainer]
    minatar = [{"layer": "Conv2d", "out_channels": 16, "kernel_size": 3}, "ReLU", "Flatten"]
    built_in = made(trainer, space, "discrete", network={"features": minatar} | streams).encoder
    other = [{"layer": "Conv2d", "out_channels": 16, "kernel_size": 3, "padding": 0}, *minatar[1:]]
    listed = made(trainer, space, "discrete", network={"features": other} | streams).encoder
    images = torch.from_numpy(np.stack([space.sample() for _ in range(20)]))
    assert [type(built_in).__name__, type(listed).__name__] == ["Encoder", "ListedEncoder"]
    assert torch.allclose(built_in(images), listed(images), atol=1e-6)


def test_features_without_convolutions_follow_the_encoder_of_small_images():
    space = gym.spaces.Box(0, 1, (4, 10, 10), bool)
    networks = made("DQN", space, "discrete", network={"features": linear(8)[:-1], "q": linear(6)})
    built_in = made("DQN", space, "discrete", hiddens=(8, 6))
    assert all(map(torch.equal, networks.parameters(), built_in.parameters()))


def test_numbers_of_channels_are_inferred():
    listed = [{"layer": "InstanceNorm2d", "affine": True}, {"layer": "GroupNorm", "num_groups": 1}, "Flatten"]
    norm, groups, _ = LayerList(listed, torch.zeros(2, 3, 5, 6), None, "network.features").layers
    assert norm.num_features == groups.num_channels == 3


def test_layers_have_names_or_places():
    named = {"fc1": {"layer": "Linear", "out_features": 8}, "act": "ReLU", "out": "Linear"}
    assert make_plain_layers(named) == make_plain_layers(linear(8)) and make_plain_layers(linear(8)).widths == (8,)
    assert make_plain_layers(["ReLU"]) is None and make_plain_layers([{"layer": "Linear", "bias": False}]) is None


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["Linea"], "unknown layer 'Linea'; did you mean Linear"),
        (["LSTM", "Linear"], "x.1: LSTM is recurrent; expected LSTM as the last of the features of an algorithm for"),
        (["RReLU"], "x.1: layer RReLU is not supported; expected LayerNorm, or critics of hiddens"),
        ([{"layer": "TransformerEncoderLayer", "d_model": 4, "nhead": 2}], "x.1: layer Tran.* contains Dropout, which"),
        (["Dropout"], "layer Dropout is not supported; expected LayerNorm, or critics of hiddens with critic_dropout"),
        ([{"out_features": 3}], "layer 1 is .*expected a name such as ReLU"),
        ({"fc": {"layer": "Linear", "in_features": 9}}, r"x\.fc: Linear does not fit inputs of shape \(4,\)"),
        ([{"layer": "Linear", "out_features": 3, "sizes": 9}, "Linear"], "x.1: .*no argument 'sizes'"),
        ([{"layer": "Linear", "out_features": 3}], r"the last layer returns \(3,\); expected \(2,\)"),
        ([{"layer": "Conv2d", "out_channels": 3, "kernel_size": 3}], r"Conv2d does not fit inputs of shape \(4,\)"),
        (["Linear", "ReLU", "Linear"], r"x\.1: Linear does not fit"),
    ],
)
def test_errors_name_the_layer_and_both_sizes(layers, message):
    with pytest.raises(ValueError, match=message):
        LayerList(layers, torch.zeros(2, 4), 2, "x")


STREAMS = {"actor": ["Linear"], "critic": ["Linear"]}


@pytest.mark.parametrize(
    ("trainer", "network", "message"),
    [
        ("DQN", {"actor": ["Linear"]}, "network has no stream 'actor' here; expected some of features, q"),
        ("DQN", {"q": ["Linear"], "value": ["Linear"]}, "expected q, or value and advantage"),
        ("IMPALA", {"actor": ["Linear"]}, "expected actor and critic"),
        ("SAC", {"features": ["Linear"]}, "network.features requires images here"),
        ("CrossQ", {"critic": linear(8, activation="ELU")}, "not supported by CrossQ"),
        ("CrossQ", {"critic": linear(8)}, "expected both actor and critic"),
        ("SAC", {"actor": ["NoisyLinear"]}, "NoisyLinear is a layer of DQN"),
        ("IMPALA", STREAMS | {"features": [*linear(8)[:-1], "LSTM"]}, "lists ReLU before the LSTM; without images"),
        ("IMPALA", STREAMS | {"features": [{"layer": "LSTM", "hiden_size": 5}]}, "takes no argument 'hiden_size' here"),
    ],
)
def test_wrong_streams_are_named(trainer, network, message):
    actions = "box" if ALGORITHMS[trainer].actions[0] is gym.spaces.Box else "discrete"
    with pytest.raises(ValueError, match=message):
        made(trainer, BOX, actions, network=network)


def test_settings_that_listed_layers_ignore_are_rejected():
    layers = linear(8, activation="ELU")
    for trainer in ("SAC", "TD3"):
        with pytest.raises(ValueError, match="critic_dropout is 0.1 and network.critic lists layers without dropout"):
            made(trainer, network={"critic": layers}, critic_dropout=0.1)
    for trainer in ("SAC", "DQN", "IMPALA"):
        network = {"q": layers} if trainer == "DQN" else {"actor": layers, "critic": layers}
        actions = "discrete" if trainer == "DQN" else "box"
        with pytest.raises(ValueError, match="matrix_dtype is 'bfloat16' and network lists layers of float32"):
            made(trainer, actions=actions, network=network, matrix_dtype="bfloat16")


class OwnEncoder(nn.Linear):
    """An encoder of flat pixels."""

    def __init__(self, space):
        self.width = 4
        super().__init__(4 * 84 * 84, 4)

    def forward(self, obs):
        return super().forward(obs.flatten(1).float())


def test_settings_that_listed_features_would_replace_are_rejected():
    memory = STREAMS | {"features": LSTM}
    made("IMPALA", network=memory, lstm_cells=5)
    with pytest.raises(ValueError, match="lstm_cells is 8 and network.features ends with an LSTM of 5; expected only"):
        made("IMPALA", network=memory, lstm_cells=8)
    for encoder in ("minatar", f"{__name__}:OwnEncoder"):
        with pytest.raises(ValueError, match=f"encoder is '{encoder}' and network.features lists the layers of images"):
            made("DQN", PIXELS, "discrete", network={"features": CONVOLUTIONS, "q": ["Linear"]}, encoder=encoder)


@pytest.mark.filterwarnings("ignore:matrices are multiplied")
def test_types_of_convolutions_that_have_no_effect_are_rejected():
    features = [{"layer": "Conv2d", "out_channels": 3, "kernel_size": 9, "stride": 5}, "ELU", "Flatten"]
    for trainer, network in {"DQN": {"q": ["Linear"]}, "IMPALA": STREAMS}.items():
        with pytest.raises(ValueError, match="conv_dtype is 'bfloat16' and network.features lists layers of float32"):
            made(trainer, PIXELS, "discrete", network={"features": features} | network, conv_dtype="bfloat16")
        with pytest.raises(ValueError, match="conv_dtype is 'bfloat16' and the encoder has no convolutions; expected"):
            made(trainer, BOX, "discrete", conv_dtype="bfloat16")
        with pytest.raises(ValueError, match="conv_dtype is 'bfloat16' and encoder .*; expected 'float32'"):
            made(trainer, PIXELS, "discrete", encoder=f"{__name__}:OwnEncoder", conv_dtype="bfloat16")
        made(trainer, PIXELS, "discrete", network={"features": CONVOLUTIONS} | network, conv_dtype="bfloat16")


@pytest.mark.filterwarnings("ignore:matrices are multiplied")
def test_settings_of_built_in_networks_apply_where_they_are_used():
    assert made("SAC", network={"actor": linear(8), "critic": linear(8)}, critic_dropout=0.1).critics.dropout == 0.1
    listed = made("SAC", network={"actor": linear(8, activation="ELU")}, critic_dropout=0.1, matrix_dtype="bfloat16")
    assert listed.critics.dropout == 0.1 and listed.critics.matrix_dtype is torch.bfloat16


@pytest.mark.parametrize("activation", ["ReLU", "ELU"])
def test_settings_that_contradict_listed_streams_are_rejected(activation):
    layers = linear(8, activation=activation)
    for kind in (SACSettings, TQCSettings, TD3Settings, DDPGSettings):
        for stream in ("actor", "critic"):
            blocks = f"{stream}_blocks"
            with pytest.raises(ValueError, match=f"{blocks} is 2 and network lists {stream}; expected {blocks} 0"):
                kind(network={stream: layers}, **{blocks: 2})
        with pytest.raises(ValueError, match=r"critic_layer_norm is True and network\.critic has no LayerNorm"):
            kind(network={"critic": layers}, critic_layer_norm=True)
        kind(network={"critic": linear(8, activation=activation, norm=True)}, critic_layer_norm=True, actor_blocks=1)
