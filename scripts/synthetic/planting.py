"""Where faults are planted in a synthetic dump, and the findings that a check must make of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.rows.rows import Layer, RowKind
from app.tools.audit.format.findings import FindingClass
from scripts.synthetic.services import ServiceMaker, SyntheticInstance, SyntheticService

ROUNDS = (1, 2)
_TOLD = ("finding_class", "lasting", "namespace", "service", "cluster", "ip", "port", "ephemeral", "name")
_SAME_ADDRESS = "the same address is in "
"""The beginning of the detail of a DUPLICATE in two groups: ``found`` then names all members that have both."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One finding that the check must make. ``members`` are the affected ones, in order."""

    finding_class: str
    lasting: bool
    namespace: str
    service: str
    cluster: str
    ip: str
    port: int | None
    ephemeral: bool | None
    members: list[str]
    name: str = ""
    """Name of a record or a client."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def told(self) -> tuple[Any, ...]:
        """The finding as ``told`` has it."""
        return *[getattr(self, name) for name in _TOLD], tuple(self.members)


def told(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    """The identity of a finding: class, lasting, its object, and all affected members."""
    members = [finding["member"]]
    if finding["finding_class"] == FindingClass.MEMBERSHIP:
        members = sorted([finding["member"], finding["reference"]])
    elif finding["finding_class"] == FindingClass.OWNER or (finding["detail"] or "").startswith(_SAME_ADDRESS):
        members = finding["found"].split(", ")
    return *[finding[name] for name in _TOLD], tuple(members)


def of_member(finding_class: FindingClass, members: list[str]) -> Planted:
    return Planted(finding_class.value, True, "", "", "", "", None, None, sorted(members))


def of_service(finding_class: FindingClass, service: SyntheticService, members: list[str]) -> Planted:
    return Planted(finding_class.value, True, service.namespace, service.name, "", "", None, None, sorted(members))


def of_instance(finding_class: FindingClass, row: Mapping[str, Any], members: list[str], lasting: bool) -> Planted:
    return Planted(
        finding_class.value,
        lasting,
        row["namespace"],
        row["service"],
        row["cluster"],
        row["ip"],
        row["port"],
        row["ephemeral"],
        sorted(members),
    )


def counted(rows: list[Any]) -> Counter[str]:
    """Return the rows by kind, once each service's row counts the instances that clients see, as a member has it."""
    told = [row for row in rows if isinstance(row, dict)]
    seen = Counter(row["service"] for row in told if row.get("layer") in (Layer.BOTH, Layer.VIEW))
    for row in told:
        if row["kind"] == RowKind.SERVICE:
            row["instances"] = seen[row["service"]]
    return Counter(str(row["kind"]) for row in told)


class View:
    """The rows of one service at each member in each round; the faults change them in place.

    A row is a dict, or bytes if it is invalid. Row 0 is the service's own, row 1 the instance for planted faults.
    """

    def __init__(
        self, maker: ServiceMaker, service: SyntheticService, members: list[str], instances: list[SyntheticInstance]
    ):
        self.service = service
        self.target = instances[0].row
        self.rows: dict[tuple[int, str], list[Any]] = {}
        for number in ROUNDS:
            for member in members:
                rows = [dict(maker.service_row(service))]
                for one in instances:
                    told = one.ages_ms is not None and member == service.owner
                    rows.append(one.row | (self._ages(one.ages_ms[number - 1]) if told and one.ages_ms else {}))
                self.rows[number, member] = rows

    def _ages(self, age_ms: int) -> dict[str, int]:
        """The age of a beat; of every third service the owner changed lately, so that little of it counts."""
        is_claimed = self.service.number % 3 == 0
        return {"beat_age_ms": age_ms + 90_000, "silent_ms": age_ms} if is_claimed else {"beat_age_ms": age_ms}

    def change(self, number: int, member: str, **changes: Any) -> None:
        rows = self.rows[number, member]
        rows[1] = rows[1] | {name: value for name, value in changes.items() if value is not None}

    def add(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Add a row to each of these members, by their addresses, in both rounds."""
        for number in ROUNDS:
            for member, row in rows.items():
                self.rows[number, member].append(row)

    def drop(self, number: int, member: str) -> None:
        del self.rows[number, member][1]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a fault: the views of its services (two for a DUPLICATE of two groups), the member that must differ,
    all compared members, and the variant of the fault."""

    maker: ServiceMaker
    views: list[View]
    member: str
    sound: list[str]
    variant: int

    @property
    def view(self) -> View:
        return self.views[0]

    def version(self, later: int) -> str | None:
        """The version that the target's owner assigned this many changes after (or before) the one in the rows."""
        service = self.view.service
        return self.maker.version(service.owner, service.number + 2 + later)
