"""Learning rates of a configuration: one per optimizer, a number or a schedule."""

from __future__ import annotations

from typing import Any

from interreplay.learning.setting_fields import rate_at


class LearningRates:
    """What a configuration reports of the settings whose names end in ``_lr``.

    Attributes:
        lr: All that are at their default otherwise; None for those.
    """

    lr: Any

    @classmethod
    def own_settings(cls) -> dict[str, Any]:
        """Return the fields of the settings by name."""
        raise NotImplementedError

    def rate(self, name: str) -> Any:
        """Return a learning rate, or its schedule: `lr` where there is one and `name` is at its default."""
        default = self.own_settings()[name].default
        own = getattr(self, name)
        return own if self.lr is None or own != default else self.lr

    def rates(self, env_steps: int) -> dict[str, float]:
        """Return each optimizer's learning rate after so many env steps."""
        names = [name for name in self.own_settings() if name.endswith("_lr")]
        return {name.removesuffix("_lr"): rate_at(self.rate(name), env_steps) for name in names}

    @property
    def has_schedules(self) -> bool:
        """Whether a learning rate changes while it trains."""
        return any(isinstance(self.rate(n), list | tuple) for n in self.own_settings() if n.endswith("_lr"))
