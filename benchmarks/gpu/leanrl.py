"""Updates of LeanRL's compiled and captured SAC, taken from its program.

LeanRL (https://github.com/pytorch-labs/LeanRL) is a folder of programs, not a package. This module executes
the part of `sac_continuous_action_torchcompile.py` before its training loop.
"""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LOOP = "    # TRY NOT TO MODIFY: start the game"


def sac_update(program: Path, env: str, rows: Any) -> Callable[[int], None]:
    """Return a function that makes a number of updates of critics, policy, temperature and targets.

    Args:
        program: Path of LeanRL's program.
        env: Gymnasium id of the environment.
        rows: Batch of `Transitions` on the GPU.
    """
    definitions, main = program.read_text().split('if __name__ == "__main__":\n')
    setup = textwrap.dedent(main.split(LOOP)[0])
    names: dict[str, Any] = {"__name__": "leanrl", "__file__": str(program)}
    sys.modules["wandb"] = types.SimpleNamespace(init=lambda **settings: None)  # type: ignore[assignment]
    sys.modules["tyro"] = types.SimpleNamespace(  # type: ignore[assignment]
        cli=lambda kind: kind(env_id=env, compile=True, cudagraphs=True, buffer_size=1_000)
    )
    sys.modules["leanrl"] = types.ModuleType("leanrl")  # where its dataclass looks for types
    exec(compile(definitions, str(program), "exec"), names)
    exec(compile(setup, str(program), "exec"), names)
    data = names["TensorDict"](
        observations=rows.obs,
        next_observations=rows.next_obs,
        actions=rows.actions,
        rewards=rows.rewards,
        terminations=rows.terminated,
        dones=rows.terminated,
        batch_size=len(rows),
        device=rows.obs.device,
    )
    tau = names["args"].tau

    def learn(count: int) -> None:
        for step in range(count):
            names["update_main"](data)
            if step % 2 == 0:  # two updates of the policy at every second step, as in LeanRL's loop
                for _ in range(2):
                    names["update_pol"](data)
                    names["alpha"].copy_(names["log_alpha"].detach().exp())
            names["qnet_target"].lerp_(names["qnet_params"].data, tau)
        torch.cuda.synchronize()

    return learn
