"""Comparison: one verify round of this member with a peer that compares digests, over any transport.

At rest it is one message with one number for each resource type. Where the numbers differ, the peer's answer has the
digests of its buckets; those that differ are sent leaf by leaf, and of the leaves that differ the versions of the keys
that this member speaks for. What follows of these is as in a round that names all keys (R3). Of some leaves, others in
each round, the contents of this member's keys are compared, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

from distro.model.digest import KeyDigest, differing_buckets, leaves_of
from distro.model.ports import Component, Components
from distro.model.types import Compare, DigestFindings, DistroKey, Received, Version
from distro.protocol.engine_reader import EngineReader
from distro.protocol.samples import contents_of, sums_of, whole
from distro.timing.sliced import paced
from distro.wire.digest_wire import DigestAnswer, DigestRequest, ListedKeys, Sample

AT_ONCE_KEYS = 500
"""Buckets with so few keys in all are sent key by key at once, without their leaves before."""
LISTED_MAX = 50_000
"""Keys whose versions are sent in one round; further differences come up in the next round."""
AGREED_MAX = 5_000
"""Keys of one type of which a round tells that the peer agrees to forget them."""

SumsOf = Callable[[str, Component, str, range], dict[int, int]]
"""As ``samples.sums_of``, with the resource type first."""


class Comparison:
    """The messages of one round, in order: first ``request``, then the results of ``answered``, up to the first
    None."""

    def __init__(
        self,
        action: Compare,
        components: Components,
        reader: EngineReader,
        now_ms: int,
        sums_of: SumsOf | None = None,
    ) -> None:
        """``sums_of``: gives the sums of contents, where they are made once for all peers."""
        self._action = action
        self._components = {name: components[name] for name in action.resource_types}
        self._reader = reader
        self._now_ms = now_ms
        self._sums_of = sums_of or _sums_of
        self._step: Callable[[DigestAnswer], DigestRequest | None] = self._roots_answered
        self._differing: dict[str, set[int]] = {}
        """The leaves that differ, of each type that does."""
        self._sums: dict[str, dict[int, int]] = {}
        """Sums of the contents in the leaves that are sampled, of each type."""
        self._differing_contents: dict[str, set[int]] = {}
        """The leaves among these where the sums differ."""
        self._listed_keys: dict[str, ListedKeys] = {}
        self._received: dict[str, Received] = {}
        self._lacking: dict[str, dict[str, Version]] = {}
        """The keys of each type that real Nacos wrote and this member is to fetch from the peer (R8)."""

    def request(self) -> bytes:
        """The first message."""
        roots, samples, sampled = {}, {}, self._action.sampled
        for name, component in self._components.items():
            component.digest.refresh()
            roots[name] = component.digest.root()
            own_address = self._reader.mapper_of(name).self_address
            self._sums[name] = self._sums_of(name, component, own_address, sampled)
            samples[name] = Sample(sampled, whole(self._sums[name]))
        return replace(self._message(), roots=roots, samples=samples).to_bytes()

    def answered(self, answer: bytes) -> bytes | None:
        """Take the answer to the last message; return the next one, None when there is none.

        Raises:
            CodecError: the answer cannot be read.
        """
        request = self._step(DigestAnswer.from_bytes(answer))
        return None if request is None else request.to_bytes()

    def compared(self) -> dict[str, DigestFindings]:
        """Return what the round found, by resource type. Called at its end."""
        return {name: self._compared(name, component) for name, component in self._components.items()}

    # --- steps ------------------------------------------------------------------------------------

    def _message(self) -> DigestRequest:
        return DigestRequest(self._reader.view.view_id, tuple(sorted(self._action.relayed)))

    def _roots_answered(self, answer: DigestAnswer) -> DigestRequest | None:
        asked: dict[str, dict[int, bytes]] = {}
        self._lacking = {name: self._lacks(name, one.refused) for name, one in answer.received.items()}
        for name, theirs in answer.buckets.items():
            if name not in self._components:
                continue
            digest = self._components[name].digest
            buckets = differing_buckets(digest.buckets(), theirs)
            leaves = list(chain.from_iterable(map(leaves_of, buckets)))
            self._differing[name] = set()
            if digest.count_in(leaves) <= AT_ONCE_KEYS:
                self._differing[name].update(leaves)
            else:
                asked[name] = {bucket: digest.bucket(bucket) for bucket in buckets}
        for name, sums in answer.sums.items():
            mine = self._sums.get(name, {})
            if differing := {leaf for leaf, one in sums.items() if leaf in mine and mine[leaf] != one}:
                self._differing.setdefault(name, set()).update(differing)
                self._differing_contents[name] = differing
        if not asked:
            return self._list_keys()
        self._step = self._leaves_answered
        return replace(self._message(), buckets=asked)

    def _leaves_answered(self, answer: DigestAnswer) -> DigestRequest | None:
        for name, leaves in answer.leaves.items():
            if name in self._differing:
                self._differing[name].update(leaves)
        return self._list_keys()

    def _list_keys(self) -> DigestRequest | None:
        if not self._differing:
            return None
        self._step = self._keys_answered
        return replace(
            self._message(), keys={name: self._listed(name, leaves) for name, leaves in self._differing.items()}
        )

    def _keys_answered(self, answer: DigestAnswer) -> DigestRequest | None:
        self._received.update({name: one for name, one in answer.received.items() if name in self._differing})
        return None

    def _listed(self, name: str, leaves: set[int]) -> ListedKeys:
        """The versions of the keys in these leaves that this member speaks for, of so many leaves as there may be."""
        component, peer = self._components[name], self._action.peer
        component.digest.refresh()
        within = _within(component.digest, leaves)
        versions: dict[str, Version] = {}
        pending = set()
        for key in paced(component.digest.keys_in(within)):
            version = component.store.version(key)
            if version is None or not self._is_told(name, component, key, version):
                continue
            if self._reader.is_pending(peer, DistroKey(name, key)):
                pending.add(key)
            else:
                versions[key] = version
        contents = dict[str, int]()
        if sampled := self._differing_contents.get(name, set()).intersection(within):
            contents = contents_of(component, self._reader.mapper_of(name).self_address, sampled)
        is_whole = len(within) == len(leaves)
        listed = ListedKeys(frozenset(within), versions, frozenset(pending), is_whole, contents)
        self._listed_keys[name] = listed
        return listed

    def _is_told(self, name: str, component: Component, key: str, version: Version) -> bool:
        mapper = self._reader.mapper_of(name)
        return version.writer.partition("~")[0] in self._action.relayed or mapper.responsible(component.store.tag(key))

    def _lacks(self, name: str, named: Mapping[str, Version]) -> dict[str, Version]:
        """Return those keys that real Nacos wrote and the peer holds (R8) of which this member has no state."""
        component = self._components.get(name)
        return {} if component is None else {key: one for key, one in named.items() if not component.store.version(key)}

    # --- the end ----------------------------------------------------------------------------------

    def _compared(self, name: str, component: Component) -> DigestFindings:
        received = self._received.get(name, Received(fetching=0))
        if lacking := self._lacking.get(name):
            received = replace(received, refused={**lacking, **received.refused})
        listed = self._listed_keys.get(name)
        agreed = tuple(self._agreed(name, component, received))
        if listed is None:
            return DigestFindings(received, agreed=agreed)
        return DigestFindings(received, len(listed.versions), listed.pending, listed.is_whole, agreed)

    def _agreed(self, name: str, component: Component, received: Received) -> list[str]:
        differing, mapper = self._differing.get(name, set()), self._reader.mapper_of(name)
        told = self._listed_keys[name].versions if name in self._listed_keys else {}
        differing_keys = set(component.digest.keys_in(differing)) if differing else set()
        agreed: list[str] = []
        for key in paced(component.digest.empty_keys()):
            if key in received.refused or (key in differing_keys and key not in told):
                continue
            version = component.store.version(key)
            if version is None or version.writer != self._reader.own_writer:
                continue
            if component.store.is_forgettable(key, self._now_ms) and mapper.responsible(component.store.tag(key)):
                agreed.append(key)
                if len(agreed) == AGREED_MAX:
                    break
        return agreed


def _sums_of(_resource_type: str, component: Component, writer: str, leaves: range) -> dict[int, int]:
    return sums_of(component, writer, leaves)


def _within(digest: KeyDigest, leaves: set[int]) -> list[int]:
    """The first of these leaves, as many as have ``LISTED_MAX`` keys."""
    found, count = list[int](), 0
    for leaf in sorted(leaves):
        count += digest.count_in((leaf,))
        if count > LISTED_MAX and found:
            break
        found.append(leaf)
    return found
