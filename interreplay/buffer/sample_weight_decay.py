"""SWD. Wu et al. 2026, Sample weight decay for mitigating plasticity loss, arXiv:2604.01913."""

from __future__ import annotations

from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.selection import SampleWeightDecay


class SWD(ReplayBuffer):
    """Fades old transitions linearly: P(age) ∝ max(floor, 1 − age/horizon); the newest row has age 0.

    Ages are drawn in closed form, without a tree. With far fewer rows than `horizon`, it is nearly uniform, so it suits
    runs of 100,000 steps or more. The defaults follow the authors' code for SAC and TD3,
    github.com/wzhhasadream/CleanRL-JAX.

    Args:
        horizon: T in rows.
        floor: Smallest weight relative to the newest row's, above 0 and at most 1.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        horizon: float = 80_000,
        floor: float = 0.1,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = SampleWeightDecay(horizon, floor)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
