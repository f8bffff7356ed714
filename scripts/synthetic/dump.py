"""Writes a complete synthetic dump: both rounds of every member, planted faults, and the list of these.

Memory is bounded by one block of instances and one buffer for each file: an instance's line is made once, and used for
all members and rounds with the same data.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from operator import itemgetter

import orjson

from app.naming.model.keys import dump_bucket
from app.rows.rows import RowKind, encode_row
from app.tools.audit.format.file_systems import open_root
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.layout import member_folders, round_folder, taken_at_text
from app.tools.audit.format.manifest import MANIFEST_NAME, ROUNDS, DumpState, Manifest, MemberDump, encode_manifest
from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.faults import (
    ALONE,
    CORRUPT_FILE,
    LATE,
    OF_MEMBERS,
    PLANTS,
    UNTOLD,
    UNVERSIONED,
    Planter,
    member_lists,
)
from scripts.synthetic.parts import SyntheticParts
from scripts.synthetic.planting import Planted, View, counted, of_member
from scripts.synthetic.services import (
    GAP_MS,
    REORDERED_EVERY,
    MemberKind,
    ServiceMaker,
    SyntheticInstance,
    SyntheticService,
    beat_line,
    reordered,
)

SHAPES = ("even", "skewed")
VERSIONS = {MemberKind.ROLLCALL: "0.1.0", MemberKind.NACOS_1: "1.4.1", MemberKind.CATALOG: "2.3.1"}
SKEWED_PART = 10
"""With shape ``skewed`` one service holds one in this many instances."""
BLOCK_INSTANCES = 1_000
_VERSION = re.compile(rb'"version":"3\.([0-9]+\.10\.)')
PLANT_INSTANCES_MIN, PLANT_INSTANCES_MAX = 4, 20
"""Instances for one fault: each of two services of a DUPLICATE has the duplicate instance, and another one."""


@dataclass(frozen=True, slots=True)
class SyntheticDump:
    """A dump to make. ``faults`` are counts by the name of a finding class, ``CORRUPT_FILE`` or ``LATE``."""

    out: str
    instances: int
    members: int = 3
    seed: int = 1
    per_service: int = 10
    faults: Mapping[str, int] = field(default_factory=dict)
    date: str = "2026-11-21"
    kind: str = MemberKind.ROLLCALL
    part_format: PartFormat = PartFormat.JSON
    rows_per_part: int = 100_000
    shape: str = "even"
    last_is_behind: bool = False
    """The last member has all data with versions of an old epoch. The list of planted faults does not include this."""

    @property
    def addresses(self) -> list[str]:
        return [f"10.0.{number >> 8}.{number & 255}:8848" for number in range(1, self.members + 1)]

    def count(self, name: str) -> int:
        return self.faults.get(name, 0)


@dataclass(frozen=True, slots=True)
class SyntheticNight:
    """A finished dump. ``rows`` counts all members and rounds; ``bytes`` are on disk, ``plain_bytes`` unpacked."""

    folders: list[str]
    planted: list[Planted]
    services: int
    instances: int
    rows: int
    bytes: int
    plain_bytes: int


def all_faults(count: int, members: int, kind: str = MemberKind.ROLLCALL) -> dict[str, int]:
    """This many faults of each class; fewer of those on whole members, so that enough members are left to compare."""
    told = MemberKind(kind).tells_owners
    needed = 2 if told else 3  # without owners the check needs a majority
    untold = {LATE} | (set() if told else UNTOLD) | (set() if MemberKind(kind).tells_versions else UNVERSIONED)
    faults = {name: count for name in PLANTS if name not in untold}
    faults[FindingClass.ABSENT_MEMBER] = max(0, min(count, members - needed, 1))
    faults[CORRUPT_FILE] = max(0, min(count, members - needed - 1, 1))
    sound = members - faults[FindingClass.ABSENT_MEMBER] - faults[CORRUPT_FILE]
    faults[FindingClass.MEMBERSHIP] = min(count, sound - 1)
    if sound < needed:
        faults = {name: number for name, number in faults.items() if name in ALONE | OF_MEMBERS}
    return {name: number for name, number in faults.items() if number > 0}


def check_made(plan: SyntheticDump) -> None:
    """Refuse a plan that cannot be made, or whose faults could not be told apart.

    Raises:
        ValueError: the text gives the reason.
    """
    known = {*PLANTS, *OF_MEMBERS}
    if unknown := sorted(set(plan.faults) - known):
        raise ValueError(f"no fault is named {', '.join(unknown)}; there are {', '.join(sorted(known))}, all and none")
    if plan.shape not in SHAPES:
        raise ValueError(f"a shape is one of {', '.join(SHAPES)}")
    if plan.members < 1 or plan.instances < 0 or plan.per_service < 1 or plan.rows_per_part < 1:
        raise ValueError("members, instances of a service and rows of a part are counted from 1, instances from 0")
    told = MemberKind(plan.kind).tells_owners
    wanted = {name for name, count in plan.faults.items() if count > 0}
    if not told and wanted & UNTOLD:
        raise ValueError(f"members of kind {plan.kind} tell neither owners nor beats: no OWNER, no STALE")
    if not MemberKind(plan.kind).tells_versions and wanted & UNVERSIONED:
        raise ValueError(f"members of kind {plan.kind} tell no versions: no SILENT_CORRUPTION, no BEHIND")
    sound = plan.members - plan.count(FindingClass.ABSENT_MEMBER) - plan.count(CORRUPT_FILE)
    needed = 1 if wanted <= ALONE | OF_MEMBERS else 2 if told else 3
    if sound < needed:
        raise ValueError(f"these faults leave {sound} members to compare, and need {needed}")
    if plan.count(FindingClass.MEMBERSHIP) > max(0, sound - 1):
        raise ValueError(f"of {sound} members at most {sound - 1} can list other members than the rest")
    room = PLANT_INSTANCES_MIN * sum(plan.count(name) for name in PLANTS)
    if plan.instances < room:
        raise ValueError(f"{plan.instances} instances are too few for these faults; they need {room}")


class _Making:
    """One dump while it is written."""

    def __init__(self, plan: SyntheticDump) -> None:
        check_made(plan)
        self.plan = plan
        self.kind = MemberKind(plan.kind)
        addresses, absent = plan.addresses, plan.count(FindingClass.ABSENT_MEMBER)
        damaged = plan.count(CORRUPT_FILE)
        self.members = addresses[: len(addresses) - absent]
        self.absent = addresses[len(addresses) - absent :]
        self.damaged = self.members[len(self.members) - damaged :]
        self.sound = self.members[: len(self.members) - damaged]
        self.maker = ServiceMaker(plan.seed, self.members, self.kind)
        self.planter = Planter(plan.seed, self.maker, self.members, self.sound)
        self.planter.plan({name: count for name, count in plan.faults.items() if name in PLANTS})
        self.planted: list[Planted] = []
        self._in_order: list[tuple[int, SyntheticService | View, bool]] = []
        """The bucket of each service, the service or what each member holds of it, and whether a part ends there."""
        self.services = self.instances = self.part_rows = self.part_number = 0
        self._sizes = random.Random(f"sizes {plan.seed}")
        self.first_ms = int(datetime.fromisoformat(f"{plan.date}T03:15:00+00:00").timestamp() * 1000)
        self.filesystem, root = open_root(plan.out)
        self.folders = [
            round_folder(root, plan.date, taken_at_text(self.first_ms + number * GAP_MS)) for number in range(ROUNDS)
        ]
        for folder in self.folders:
            if self.filesystem.exists(folder):
                raise FileExistsError(f"{folder} is there already")
        names = member_folders(addresses)
        self.writers = {
            (number, member): SyntheticParts(
                self.filesystem,
                self.folders[number - 1],
                names[member],
                plan.part_format,
                self._damage(number, member),
            )
            for number in range(1, ROUNDS + 1)
            for member in self.members
        }

    def _damage(self, number: int, member: str) -> int | None:
        """The damage to the first file of a member in a round; in one round, because each damaged file is a finding."""
        index = self.damaged.index(member) if member in self.damaged else None
        return index if index is not None and index % ROUNDS == number - 1 else None

    def services_until_full(self) -> None:
        """Make services until there are enough instances, with the faults evenly distributed; write them by bucket."""
        plan = self.plan
        stride = plan.instances / (self.planter.left + 1)
        next_plant = stride
        while (left := plan.instances - self.instances) > 0:
            room = left - PLANT_INSTANCES_MIN * self.planter.left
            if self.planter.left and (self.instances >= next_plant or room <= 0):
                extra = max(0, min(room, PLANT_INSTANCES_MAX - PLANT_INSTANCES_MIN, plan.per_service))
                self._plant(PLANT_INSTANCES_MIN + (self._sizes.randrange(extra + 1) if extra else 0))
                next_plant += stride
            else:
                wanted = self._sizes.randrange(1, 2 * plan.per_service)
                if plan.shape == "skewed" and self.services == 0:
                    wanted = max(1, plan.instances // SKEWED_PART)
                service = self.maker.next_service(min(room, wanted))
                self._keep(service, service)
        for _, made, ends_part in sorted(self._in_order, key=itemgetter(0)):
            if isinstance(made, View):
                self._view(made)
            else:
                self._service(made)
            if ends_part or self.part_rows >= plan.rows_per_part:
                self._end_parts()
        self._end_parts()

    def _keep(self, service: SyntheticService, made: SyntheticService | View, *, ends_part: bool = False) -> None:
        self._in_order.append((dump_bucket(service.namespace, service.name), made, ends_part))
        self.services += 1
        self.instances += service.size

    def _end_parts(self) -> None:
        # All at once, so that a part has the same number in both rounds.
        self.part_number, self.part_rows = self.part_number + 1, 0
        for writer in self.writers.values():
            writer.end_part(self.part_number)

    def _service(self, service: SyntheticService) -> None:
        first = encode_row(self.maker.service_row(service))
        for (_, member), writer in self.writers.items():
            writer.add(self._of(member, first), 1, 1, 0)
        turned = service.number % REORDERED_EVERY == 0
        instances = self.maker.instances(service)
        while block := list(islice(instances, BLOCK_INSTANCES)):
            self._block(service, block, turned)
            self.part_rows += len(block)
        self.part_rows += 1

    def _block(self, service: SyntheticService, block: list[SyntheticInstance], turned: bool) -> None:
        lines = [encode_row(one.row) for one in block]
        owned = [lines, lines]
        if self.kind.tells_owners:
            for index in range(ROUNDS):
                owned[index] = [
                    line if one.ages_ms is None else beat_line(line, one.ages_ms[index])
                    for one, line in zip(block, lines, strict=True)
                ]
        copies = b"".join(reordered(one.row) for one in block) if turned else b"".join(lines)
        for index in range(ROUNDS):
            own = b"".join(owned[index])
            for member in self.members:
                bytes_ = own if member == service.owner else copies
                self.writers[index + 1, member].add(self._of(member, bytes_), len(block), 0, len(block))

    def _of(self, member: str, lines: bytes) -> bytes:
        """Return the lines of this member."""
        is_behind = self.plan.last_is_behind and member == self.members[-1]
        return _VERSION.sub(rb'"version":"2.\1', lines) if is_behind else lines

    def _plant(self, size: int) -> None:
        name, views, planted = self.planter.next(size)
        self.planted += planted
        for view in views:
            self._keep(view.service, view, ends_part=name == FindingClass.CORRUPT and view is views[-1])

    def _view(self, view: View) -> None:
        for at, rows in view.rows.items():
            kinds = counted(rows)
            lines = [row if isinstance(row, bytes) else encode_row(row) for row in rows]
            self.writers[at].add(b"".join(lines), len(lines), kinds[RowKind.SERVICE], kinds[RowKind.INSTANCE])
        self.part_rows += 1 + view.service.size

    def manifests(self) -> None:
        """Write both manifests, and record the faults planted in whole members."""
        odd = self.sound[: self.plan.count(FindingClass.MEMBERSHIP)]
        lists = member_lists(self.plan.addresses, self.absent, odd)
        for index, member in enumerate(self.members):
            for other in self.members[index + 1 :]:
                if lists[member] != lists[other]:
                    self.planted.append(of_member(FindingClass.MEMBERSHIP, [member, other]))
        self.planted += [of_member(FindingClass.CORRUPT, [member]) for member in self.damaged]
        self.planted += [of_member(FindingClass.ABSENT_MEMBER, [member]) for member in self.absent]
        run = f"{random.Random(f'run {self.plan.seed}').getrandbits(64):016x}"
        for number, folder in enumerate(self.folders, 1):
            taken_ms = self.first_ms + (number - 1) * GAP_MS
            dumps = [
                MemberDump(
                    address=member,
                    state=DumpState.DUMPED,
                    kind=self.kind.value,
                    version=VERSIONS[self.kind],
                    taken_ms=taken_ms + index,
                    took_ms=40 + self.instances // 100,
                    services=self.writers[number, member].services,
                    instances=self.writers[number, member].instances,
                    members=lists[member],
                    parts=self.writers[number, member].parts,
                    digests=self.writers[number, member].digests(),
                )
                for index, member in enumerate(self.members)
            ]
            dumps += [MemberDump(one, DumpState.ABSENT, error="connection refused") for one in self.absent]
            manifest = Manifest(run, self.plan.date, taken_at_text(taken_ms), number, ROUNDS, GAP_MS / 1000, dumps)
            self.filesystem.pipe_file(f"{folder}/{MANIFEST_NAME}", encode_manifest(manifest))


def planted_path(root: str, date: str) -> str:
    return f"{root}/planted-{date}.jsonl"


def make_dump(plan: SyntheticDump) -> SyntheticNight:
    """Make the dump; the same plan makes the same bytes.

    Raises:
        ValueError: the plan is not possible.
        FileExistsError: the folder of a round exists already.
    """
    making = _Making(plan)
    making.services_until_full()
    making.manifests()
    planted = sorted(making.planted, key=lambda one: orjson.dumps(one.to_json()))
    lines = [orjson.dumps(one.to_json(), option=orjson.OPT_APPEND_NEWLINE) for one in planted]
    _, root = open_root(plan.out)
    making.filesystem.pipe_file(planted_path(root, plan.date), b"".join(lines))
    writers = making.writers.values()
    return SyntheticNight(
        making.folders,
        planted,
        making.services,
        making.instances,
        sum(part.rows for writer in writers for part in writer.parts),
        sum(part.bytes for writer in writers for part in writer.parts),
        sum(writer.plain_bytes for writer in writers),
    )


def counts(planted: list[Planted]) -> dict[str, int]:
    """Return expected findings by class; those that do not last are under LATE."""
    return dict(sorted(Counter(one.finding_class if one.lasting else LATE for one in planted).items()))
