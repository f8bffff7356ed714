"""An operator's change of one instance, kept apart from the registration. Source: Nacos 2.x InstanceMetadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.naming.model.keys import Metadata


@dataclass(frozen=True, slots=True)
class Override:
    """The attributes that an operator set; None leaves what is registered."""

    weight: float | None = None
    enabled: bool | None = None
    metadata: Metadata = field(default_factory=dict)
    """Keys that are set in addition to the registered ones, or in place of them."""

    @property
    def is_empty(self) -> bool:
        """Return whether it changes nothing."""
        return self.weight is None and self.enabled is None and not self.metadata


Overrides = Mapping[str, Override]
"""The overrides of one service by instance key. Never changed in place."""
NO_OVERRIDES: Overrides = {}
