"""OwnChecksums: the keys of this member with the checksums that real Nacos compares, for verify rounds with it (R8)."""

from collections.abc import Iterable

from distro.model.ports import Component, Components
from distro.model.types import MemberKind, Version
from distro.protocol.engine_reader import EngineReader
from distro.timing.sliced import paced


class OwnChecksums:
    """Made by the threads that call peers, with rests. A list's checksum is computed once for each of its versions.

    So however many members of real Nacos there are, a round costs what changed, and a look at each key. Which keys a
    round names is not kept: they remove what it does not name, so it has to have all that was sent to them before.
    """

    def __init__(self, components: Components, reader: EngineReader) -> None:
        self._components = components
        self._reader = reader
        self._known: dict[str, dict[str, tuple[Version, str]]] = {}
        """By resource type and key; another mapping after each round, as several threads make them."""

    def of(self, resource_type: str) -> dict[str, str]:
        """The checksum of each key that this run wrote and is responsible for."""
        component = self._components[resource_type]
        # Clients by address have one version for ever; their checksum is their revision, which is kept with them.
        is_kept = MemberKind.NACOS_1 in component.taken_by
        known, now = self._known.get(resource_type, {}), dict[str, tuple[Version, str]]()
        for key, version in paced(self._own(resource_type, component)):
            before = known.get(key)
            if before is None or before[0] != version or not is_kept:
                datum = next(iter(component.store.datums([key])), None)
                if datum is None:
                    continue
                before = datum.version, component.codec.checksum(datum)
            now[key] = before
        self._known[resource_type] = now if is_kept else {}
        return {key: checksum for key, (_, checksum) in now.items()}

    def _own(self, resource_type: str, component: Component) -> Iterable[tuple[str, Version]]:
        mapper = self._reader.mapper_of(resource_type)
        for key, version in component.store.versions().items():
            if version.writer == self._reader.own_writer and mapper.responsible(component.store.tag(key)):
                yield key, version
