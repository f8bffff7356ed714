"""DigestAnswers: the answers of a member to the steps of a verify round in which a peer compares digests with it."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from distro.model.digest import differing_leaves
from distro.model.errors import NotInitialized
from distro.model.monitor import DistroStats
from distro.model.ports import Component, Components
from distro.model.types import MemberKind, Received
from distro.protocol.engine_reader import EngineReader
from distro.protocol.samples import sums_of, whole
from distro.receive.receive import DistroReceiver, VerifyScope
from distro.timing.sliced import paced
from distro.wire.digest_wire import DigestAnswer, DigestRequest, ListedKeys, Sample

LOG = logging.getLogger(__name__)
UNVERSIONED_MAX = 5_000
"""Keys of one type whose state real Nacos wrote and that one answer names. Later rounds name the rest."""


class DigestAnswers:
    """Answers Rollcall peers. Thread-safe; nothing in it takes long unless much differs."""

    def __init__(
        self, components: Components, receiver: DistroReceiver, reader: EngineReader, stats: DistroStats
    ) -> None:
        self._components = components
        self._receiver = receiver
        self._reader = reader
        self._stats = stats

    def answer(self, source: str, request: DigestRequest, now_ms: int) -> DigestAnswer:
        """Answer one step of the source's round.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self._receiver.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        view = self._reader.view
        relayed = [member for member in request.relayed if member in view.members.contacts]
        buckets: dict[str, bytes] = {}
        for name, root in request.roots.items():
            if (component := self._component(name)) is None:
                continue
            component.digest.refresh()
            if component.digest.root() != root:
                buckets[name] = component.digest.buckets()
            elif component.on_compared is not None:
                component.on_compared([source, *relayed], (), now_ms)
        same_view = request.view == view.view_id
        sums = self._sums(source, request.samples) if same_view else {}
        leaves = {
            name: [leaf for at, told in part.items() for leaf in differing_leaves(at, one.digest.bucket(at), told)]
            for name, part in request.buckets.items()
            if (one := self._component(name)) is not None
        }
        received = {
            name: self._compare(name, source, relayed, listed, now_ms, same_view=same_view)
            for name, listed in request.keys.items()
            if self._component(name) is not None
        }
        if same_view:
            received |= self._unversioned(source, request.roots)
        return DigestAnswer(buckets, sums, leaves, received)

    def _unversioned(self, source: str, resource_types: Iterable[str]) -> dict[str, Received]:
        """Return the keys that real Nacos wrote and the source owns by now (R8): no digest shows that it lacks one."""
        found = {}
        for name in resource_types:
            if (component := self._component(name)) is None:
                continue
            mapper, tag = self._reader.mapper_of(name), component.store.tag
            written = component.digest.unversioned_keys().items()
            owned = ((key, version) for key, version in paced(written) if mapper.map_srv(tag(key)) == source)
            if named := dict(islice(owned, UNVERSIONED_MAX)):
                found[name] = Received(refused=named, fetching=0)
        return found

    def _sums(self, source: str, samples: Mapping[str, Sample]) -> dict[str, dict[int, int]]:
        """The sums here of the contents that the source samples, of the types where they differ."""
        found = {}
        for name, sample in samples.items():
            if (component := self._component(name)) is not None:
                sums = sums_of(component, source, sample.leaves)
                if whole(sums) != sample.total:
                    found[name] = sums
        return found

    def _component(self, name: str) -> Component | None:
        component = self._components.get(name)
        return component if component is not None and MemberKind.OWN in component.taken_by else None

    def _compare(
        self, name: str, source: str, relayed: Collection[str], listed: ListedKeys, now_ms: int, *, same_view: bool
    ) -> Received:
        component = self._components[name]
        component.digest.refresh()
        scope = VerifyScope(
            component.digest.keys_in(listed.leaves),
            listed.pending,
            relayed,
            listed.is_whole,
            same_view=same_view or component.owned_by_writer,
        )
        received = self._receiver.verify(name, source, listed.versions, now_ms, scope)
        differing = {key: version for key, version in listed.versions.items() if _differs(component, key, listed)}
        if not differing:
            return received
        self._stats.contents_differed += len(differing)
        LOG.warning(
            "%s has different contents of %d keys in equal versions: %s", source, len(differing), next(iter(differing))
        )
        return replace(received, refused={**received.refused, **differing})


def _differs(component: Component, key: str, listed: ListedKeys) -> bool:
    """Return whether a key exists here in the given version, with different content."""
    if key not in listed.contents:
        return False
    stored = component.store.content(key)
    return stored is not None and stored[0] == listed.versions[key] and stored[1] != listed.contents[key]
