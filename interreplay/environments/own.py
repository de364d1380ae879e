"""The environments that come with this package, which gymnasium hears of when one of them is asked for."""

from __future__ import annotations

import gymnasium as gym

PREFIX = "interreplay/"
OWN = {
    "Catch-v0": ("catch:Catch", None),
    "GoalMountainCar-v0": ("goal_tasks:GoalMountainCar", 200),
    "GoalAcrobot-v0": ("goal_tasks:GoalAcrobot", 500),
    "Wrapped-v0": ("wrapped:make", None),
}
"""Where each is, and the steps after which its episodes are cut."""


def register(name: str) -> bool:
    """Let gymnasium know the environments of ours, if `name` is of them; return True, nothing can be missing."""
    if name.startswith(PREFIX):
        for own, (place, longest) in OWN.items():
            if PREFIX + own not in gym.registry:
                entry = f"interreplay.environments.{place}"
                alone = own == "Wrapped-v0"  # what Gymnasium puts around is already around the environment within
                gym.register(
                    PREFIX + own,
                    entry_point=entry,
                    max_episode_steps=longest,
                    order_enforce=not alone,
                    disable_env_checker=alone,
                )
    return True
