"""The updates of DQN and IMPALA on a GPU: ours as usual and as CUDA graphs, compared with other libraries.

    python -m benchmarks.gpu.values_and_unrolls [--device cuda] [--repeats 11] [--cleanrl PROGRAM]

DQN has the network of Mnih et al. 2015 and learns from 32 rows of four 84x84 frames. CleanRL is not a package:
`--cleanrl` names its file `dqn_atari.py`. Its loss is a square and its gradients are not clipped, and neither are ours
unless the table mentions it. Stable-Baselines3 has a Huber loss, clips gradients and also draws its batches.

IMPALA learns from 32 unrolls of 20 steps, of vectors and of frames, compared with the parts of TorchRL. All updates
except Stable-Baselines3's learn from one batch that is on the GPU. Products in convolutions have PyTorch's default
type, TF32, unless the table names another one. With `--device cpu` there are no CUDA graphs.
"""

from __future__ import annotations

import argparse
import copy
import sys
import textwrap
import types
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu.updates import Learn, described, measure_micros, synchronize
from benchmarks.measure import installed, micros_table, single_thread
from interreplay import Transitions
from interreplay.learning.architectures import ARCHITECTURES, assemble, build_encoder, resolve_model
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.update import Batch, Update
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.learning.value.value_settings import DQNSettings
from interreplay.unrolls.unrolls import Unrolls

ACTIONS = 6
TABLES = ("dqn", "vectors", "frames")
GAMMA = 0.99
FRAMES = (4, 84, 84)
ROWS = 32
LR = 1e-4
COPY_PERIOD = 250
"""Updates of DQN between two copies of the target network: 1,000 env steps in CleanRL."""
WARM_UPS = 4
"""Untimed calls of each contender. With `COPY_PERIOD` updates per call, they also capture the copy of the networks."""
OBS = 8
STEPS = 20
GRAD_CLIP = 0.5
UNROLLS = 32
FRAME_SPACE = gym.spaces.Box(0, 255, FRAMES, np.uint8)
VECTOR_SPACE = gym.spaces.Box(-np.inf, np.inf, (OBS,))
BFLOAT16 = "ours, CUDA graph, bfloat16 convolutions"
"""Name of a contender in two tables."""
CLEANRL_IMPORTS = (
    "tyro",
    "torch.utils.tensorboard",
    "cleanrl_utils",
    "cleanrl_utils.atari_wrappers",
    "cleanrl_utils.buffers",
)
"""Modules that CleanRL's program imports and its update does not use."""


def build_networks(algorithm: str, observations: gym.Space, settings: Any, device: torch.device) -> Any:
    """Return the networks of an algorithm for `ACTIONS` discrete actions, as a run builds them."""
    torch.manual_seed(0)
    architecture = ARCHITECTURES[algorithm]
    model = asdict(settings) | {"matrix_dtype": "float32", "normalize_observations": False}
    model = resolve_model(architecture, observations, model)
    encoder, width = build_encoder(observations, model)
    networks = architecture.make(width, gym.spaces.Discrete(ACTIONS), model, inference_only=False)
    networks = assemble(networks, encoder, model)
    if algorithm == "DQN":
        networks.target_encoder = copy.deepcopy(encoder).requires_grad_(False)
    return networks.to(device)


def repeated(update: Update, batch: Any, device: torch.device, captured: bool) -> Learn:
    """Return a function that makes a number of updates from one batch."""
    learner: Any = CapturedUpdate(update, device) if captured else update
    rng = torch.Generator(device)

    def learn(count: int) -> None:
        for _ in range(count):
            learner.update(batch, rng)
        synchronize(device)

    return learn


# -- DQN -------------------------------------------------------------------------------------------


def frame_rows(device: torch.device) -> Transitions:
    """Return random rows of Atari frames."""
    torch.manual_seed(0)
    rows = Transitions(
        obs=torch.randint(0, 256, (ROWS, *FRAMES), dtype=torch.uint8),
        actions=torch.randint(0, ACTIONS, (ROWS,)),
        rewards=torch.randint(-1, 2, (ROWS,)).float(),
        next_obs=torch.randint(0, 256, (ROWS, *FRAMES), dtype=torch.uint8),
        terminated=torch.zeros(ROWS, dtype=torch.bool),
        truncated=torch.zeros(ROWS, dtype=torch.bool),
        discounts=torch.full((ROWS,), GAMMA),
    )
    return rows.to(device)


def our_dqn(device: torch.device, captured: bool, conv_dtype: str = "float32", as_published: bool = False) -> Learn:
    """Return our update of DQN.

    Args:
        device: Device of networks and batch.
        captured: Whether it runs as CUDA graphs.
        conv_dtype: Type of the convolutions' products.
        as_published: Whether the loss is Huber's and gradients are clipped; otherwise a square without clipping.
    """
    published = {"huber_delta": 1.0, "grad_clip": 10.0}
    loss: dict[str, Any] = published if as_published else {"huber_delta": None, "grad_clip": None}
    settings = DQNSettings(hiddens=(512,), conv_dtype=conv_dtype, **loss)
    networks = build_networks("DQN", FRAME_SPACE, settings=settings, device=device)
    update = DQNUpdate(networks, lr=LR, grad_clip=settings.grad_clip, target_update_period=COPY_PERIOD)
    batch = Batch(frame_rows(device), torch.ones(ROWS, device=device))
    return repeated(update, batch, device=device, captured=captured)


def cleanrl_dqn(program: Path, device: torch.device) -> Learn:
    """Return the update of CleanRL, which is a part of its program.

    Args:
        program: CleanRL's `dqn_atari.py`.
        device: Device of networks and batch.
    """
    definitions, _, main = program.read_text().partition('if __name__ == "__main__":\n')
    setup = section(main, "    q_network = ", "    rb = ReplayBuffer(", program=program)
    training = section(main, "        # ALGO LOGIC: training.", "    if args.save_model:", program=program)
    rows = frame_rows(device)
    data = types.SimpleNamespace(
        observations=rows.obs,
        next_observations=rows.next_obs,
        actions=rows.actions.unsqueeze(1),
        rewards=rows.rewards.unsqueeze(1),
        dones=rows.terminated.float().unsqueeze(1),
    )
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "cleanrl", "__file__": str(program)}
    execute_with_stubs(definitions, names, program)
    args = names["Args"](learning_starts=0, gamma=GAMMA, learning_rate=LR)
    names |= {
        "args": args,
        "envs": types.SimpleNamespace(single_action_space=gym.spaces.Discrete(ACTIONS)),
        "device": device,
        "rb": types.SimpleNamespace(sample=lambda size: data),
        "writer": types.SimpleNamespace(add_scalar=lambda *record: None),
        "print": lambda *words: None,
        "start_time": 0.0,
    }
    exec(compile(setup, str(program), "exec"), names)
    step = compile(training, str(program), "exec")
    made = 0

    def learn(count: int) -> None:
        nonlocal made
        for _ in range(count):
            made += 1
            names["global_step"] = args.train_frequency  # a step with an update, and no copy or report
            if made % COPY_PERIOD == 0:
                names["global_step"] = args.target_network_frequency
            exec(step, names)
        synchronize(device)

    return learn


def section(text: str, start: str, end: str, program: Path) -> str:
    """Return the lines of a text from one that starts with `start` to one that starts with `end`, dedented.

    Raises:
        ValueError: A line is missing.
    """
    for line in (start, end):
        if f"\n{line}" not in text:
            raise ValueError(f"{program} contains no line {line.strip()!r}; expected CleanRL's dqn_atari.py")
    _, _, rest = text.partition(f"\n{start}")
    return textwrap.dedent((start + rest).partition(f"\n{end}")[0])


def execute_with_stubs(definitions: str, names: dict[str, Any], program: Path) -> None:
    """Run the definitions of CleanRL's program, with stubs in place of modules that are not imported yet."""
    stubs = [name for name in CLEANRL_IMPORTS if name not in sys.modules]
    for name in stubs:
        sys.modules[name] = MagicMock()
    sys.modules["cleanrl"] = types.ModuleType("cleanrl")  # where its dataclass looks for types
    try:
        exec(compile(definitions, str(program), "exec"), names)
    finally:
        for name in [*stubs, "cleanrl"]:
            del sys.modules[name]


class FrameEnv(gym.Env):
    """The spaces of an Atari game, from which Stable-Baselines3 builds its networks; it is never stepped."""

    observation_space = FRAME_SPACE
    action_space = gym.spaces.Discrete(ACTIONS)


def stable_baselines_dqn(device: torch.device) -> Learn:
    """Return the update of Stable-Baselines3, which draws its batches and does not copy the target network."""
    import stable_baselines3
    from stable_baselines3.common.logger import Logger

    capacity = 1_000
    model = stable_baselines3.DQN("CnnPolicy", FrameEnv(), device=device, buffer_size=capacity, learning_rate=LR)
    model.set_logger(Logger(None, []))
    rng = np.random.default_rng(0)
    for _ in range(capacity):
        obs, following = rng.integers(0, 256, (2, 1, *FRAMES), np.uint8)
        action = rng.integers(0, ACTIONS, (1, 1))
        model.replay_buffer.add(obs, following, action, rng.normal(size=1), np.zeros(1, bool), [{}])

    def learn(count: int) -> None:
        model.train(gradient_steps=count, batch_size=ROWS)
        synchronize(device)

    return learn


def dqn_contenders(arguments: argparse.Namespace, device: torch.device) -> dict[str, Learn]:
    """Return the updates of DQN by name."""
    found: dict[str, Learn] = {}
    if device.type == "cuda":
        found["ours, CUDA graph"] = our_dqn(device, captured=True)
        found[BFLOAT16] = our_dqn(device, captured=True, conv_dtype="bfloat16")
        found["ours, CUDA graph, Huber loss, clipped"] = our_dqn(device, captured=True, as_published=True)
    found["ours, as usual"] = our_dqn(device, captured=False)
    found["ours, as usual, bfloat16 convolutions"] = our_dqn(device, captured=False, conv_dtype="bfloat16")
    if installed("stable_baselines3"):
        found["Stable-Baselines3, Huber loss, clipped"] = stable_baselines_dqn(device)
    if arguments.cleanrl:
        found["CleanRL"] = cleanrl_dqn(arguments.cleanrl, device)
    return found


# -- IMPALA ----------------------------------------------------------------------------------------


def draw_unrolls(images: bool, device: torch.device) -> Unrolls:
    """Return random unrolls of vectors or of frames."""
    torch.manual_seed(0)
    if images:
        obs = torch.randint(0, 256, (STEPS + 1, UNROLLS, *FRAMES), dtype=torch.uint8)
    else:
        obs = torch.randn(STEPS + 1, UNROLLS, OBS)
    unrolls = Unrolls(
        obs=obs,
        actions=torch.randint(0, ACTIONS, (STEPS, UNROLLS)),
        rewards=torch.randn(STEPS, UNROLLS),
        terminated=torch.rand(STEPS, UNROLLS) < 0.02,
        policy=0.1 * torch.randn(STEPS, UNROLLS, ACTIONS),
        values=torch.zeros(STEPS, UNROLLS),
    )
    return unrolls.to(device)


def impala_settings(images: bool, conv_dtype: str = "float32") -> IMPALASettings:
    """Return the settings for vectors or for frames: those of our presets, as far as they affect the time."""
    return IMPALASettings(
        lr=3e-4,
        optimizer="Adam",
        optimizer_eps=1e-5,
        loss="mean",
        grad_clip=GRAD_CLIP,
        hiddens=(256,) if images else (256, 256),
        encoder="shallow",
        conv_dtype=conv_dtype,
    )


def our_impala(images: bool, device: torch.device, captured: bool, conv_dtype: str = "float32") -> Learn:
    """Return our update of IMPALA.

    Args:
        images: Whether observations are frames; otherwise vectors.
        device: Device of networks and batch.
        captured: Whether it runs as a CUDA graph.
        conv_dtype: Type of the convolutions' products.
    """
    settings = impala_settings(images, conv_dtype)
    observations = FRAME_SPACE if images else VECTOR_SPACE
    networks = build_networks("IMPALA", observations, settings=settings, device=device)
    update = IMPALAUpdate(networks, settings, GAMMA)
    return repeated(update, draw_unrolls(images, device), device=device, captured=captured)


class Scaled(nn.Module):
    """Scales bytes to numbers from 0 to 1."""

    def forward(self, pixels: Tensor) -> Tensor:
        """Return pixels divided by 255."""
        return pixels / 255.0


def torchrl_networks(images: bool, settings: IMPALASettings, device: torch.device) -> tuple[Any, Any]:
    """Return policy and value function with shared layers of our sizes, as in TorchRL's program for IMPALA."""
    from tensordict.nn import TensorDictModule
    from torchrl.modules import MLP, ActorValueOperator, ConvNet, OneHotCategorical, ProbabilisticActor, ValueOperator

    torch.manual_seed(0)
    width = settings.hiddens[-1]
    hidden = {"activation_class": nn.ReLU, "activate_last_layer": True, "num_cells": list(settings.hiddens[:-1])}
    if images:
        convolutions = ConvNet(
            in_features=FRAMES[0],
            num_cells=[16, 32],
            kernel_sizes=[8, 4],
            strides=[4, 2],
            activation_class=nn.ReLU,
        )
        inputs = convolutions(torch.zeros(1, *FRAMES)).shape[-1]
        body: nn.Module = nn.Sequential(Scaled(), convolutions, MLP(inputs, width, **hidden))
    else:
        body = MLP(OBS, width, **hidden)
    policy = ProbabilisticActor(
        TensorDictModule(nn.Linear(width, ACTIONS), in_keys=["features"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    networks = ActorValueOperator(
        common_operator=TensorDictModule(body, in_keys=["observation"], out_keys=["features"]),
        policy_operator=policy,
        value_operator=ValueOperator(nn.Linear(width, 1), in_keys=["features"]),
    ).to(device)
    return networks.get_policy_operator(), networks.get_value_operator()


def torchrl_batch(unrolls: Unrolls, log_prob_key: str) -> Any:
    """Return unrolls as TorchRL expects them: ``(B, T)``, with one-hot actions and the next observations."""
    from tensordict import TensorDict

    def by_unroll(column: Tensor) -> Tensor:
        return column.transpose(0, 1).contiguous()

    log_probs = unrolls.policy.log_softmax(dim=-1).gather(-1, unrolls.actions.unsqueeze(-1)).squeeze(-1)
    terminated = by_unroll(unrolls.terminated).unsqueeze(-1)
    shape = [unrolls.size, unrolls.steps]
    following = {
        "observation": by_unroll(unrolls.obs[1:]),
        "reward": by_unroll(unrolls.rewards).unsqueeze(-1),
        "done": terminated,
        "terminated": terminated,
    }
    columns = {
        "observation": by_unroll(unrolls.obs[:-1]),
        "action": nn.functional.one_hot(by_unroll(unrolls.actions), ACTIONS),
        log_prob_key: by_unroll(log_probs),
        "next": TensorDict(following, batch_size=shape),
    }
    return TensorDict(columns, batch_size=shape, device=unrolls.device)


def torchrl_impala(images: bool, device: torch.device, captured: bool = False) -> Learn:
    """Return an update that consists of TorchRL's V-trace and losses, in the order of its program for IMPALA.

    Its gradients equal ours except for the ratios of V-trace: TorchRL 0.12 evaluates the current policy at an action
    that it selects itself, and ours at the action that was taken. Both cost the same.

    Args:
        images: Whether observations are frames; otherwise vectors.
        device: Device of networks and batch.
        captured: Whether it runs as a CUDA graph by `tensordict.nn.CudaGraphModule`.
    """
    update, batch, _ = torchrl_parts(images, device, captured)
    if captured:
        from tensordict.nn import CudaGraphModule

        update = CudaGraphModule(update, in_keys=[], out_keys=[], warmup=10)

    def learn(count: int) -> None:
        for _ in range(count):
            update(batch)
        synchronize(device)

    return learn


def torchrl_parts(images: bool, device: torch.device, capturable: bool) -> tuple[Callable[[Any], Any], Any, Any]:
    """Return a function that makes one update, its batch, and the module of the losses with all parameters."""
    from torchrl.objectives import A2CLoss
    from torchrl.objectives.value import VTrace

    settings = impala_settings(images)
    actor, critic = torchrl_networks(images, settings, device)
    vtrace = VTrace(gamma=GAMMA, actor_network=actor, value_network=critic, device=device)
    losses = A2CLoss(
        actor_network=actor,
        critic_network=critic,
        loss_critic_type="l2",
        critic_coeff=settings.vf_loss_coeff / 2,
        entropy_coeff=settings.entropy_coeff,
    )
    log_prob_key = losses.tensor_keys.sample_log_prob
    vtrace.set_keys(sample_log_prob=log_prob_key)
    parameters = list(losses.parameters())
    optimizer = torch.optim.Adam(parameters, lr=settings.lr, eps=settings.optimizer_eps, capturable=capturable)

    def update(batch: Any) -> Any:
        rows = batch.copy()  # V-trace stores its results, and would use those of the previous update
        with torch.no_grad():
            rows = vtrace(rows)
        found = losses(rows.reshape(-1))
        loss = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, GRAD_CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return found.detach()

    return update, torchrl_batch(draw_unrolls(images, device), log_prob_key), losses


def impala_contenders(images: bool, arguments: argparse.Namespace, device: torch.device) -> dict[str, Learn]:
    """Return the updates of IMPALA by name."""
    found: dict[str, Learn] = {}
    cuda = device.type == "cuda"
    if cuda:
        found["ours, CUDA graph"] = our_impala(images, device, captured=True)
    if cuda and images:
        found[BFLOAT16] = our_impala(images, device, captured=True, conv_dtype="bfloat16")
    found["ours, as usual"] = our_impala(images, device, captured=False)
    if not installed("torchrl"):
        return found
    if cuda and arguments.torchrl_graph:
        torch.distributions.Distribution.set_default_validate_args(False)  # checks wait for the GPU
        found["TorchRL's parts, CUDA graph"] = torchrl_impala(images, device, captured=True)
    found["TorchRL's parts"] = torchrl_impala(images, device)
    return found


# -- Tables ----------------------------------------------------------------------------------------


def measured(title: str, contenders: dict[str, Learn], arguments: argparse.Namespace) -> str:
    """Time updates, and return a table."""
    micros = measure_micros(contenders, arguments.updates, arguments.repeats, warm_up=WARM_UPS)
    return micros_table(title, "update", micros)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default="cuda", help="cuda, or cpu without CUDA graphs")
    parser.add_argument("--updates", type=int, default=COPY_PERIOD, help="updates per timed call")
    parser.add_argument("--repeats", type=int, default=11, help="timed calls of each contender")
    parser.add_argument("--cleanrl", type=Path, metavar="PROGRAM", help="CleanRL's dqn_atari.py")
    parser.add_argument(
        "--torchrl_graph",
        action="store_true",
        help="also run TorchRL's parts as a CUDA graph, without checks of distributions",
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, help="tables to measure")
    arguments = parser.parse_args()
    single_thread()
    device = arguments.device
    print(described(device), flush=True)
    size = f"{STEPS} x {UNROLLS} steps"
    if "dqn" in arguments.tables:
        title = f"DQN, {ROWS} rows of 84x84x4"
        print(f"\n{measured(title, dqn_contenders(arguments, device), arguments)}", flush=True)
    if "vectors" in arguments.tables:
        title = f"IMPALA, {size}, vectors of {OBS}, 256x256"
        contenders = impala_contenders(images=False, arguments=arguments, device=device)
        print(f"\n{measured(title, contenders, arguments)}", flush=True)
    if "frames" in arguments.tables:
        title = f"IMPALA, {size}, 84x84x4, two convolutions, 256"
        contenders = impala_contenders(images=True, arguments=arguments, device=device)
        print(f"\n{measured(title, contenders, arguments)}", flush=True)


if __name__ == "__main__":
    main()
