"""Writes the pages of settings, and the settings that the Helm chart's schema takes, from the table of setting keys."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from app.config.link_fields import FIELDS
from app.config.settings import ALL_KEYS
from app.config.settings_keys import FLAG, FLAG_OR_NONE, Key

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHART_SCHEMA = ROOT / "deploy" / "helm" / "rollcall" / "values.schema.json"
CHARTS_OWN = re.compile(
    r"server\.(address|port)|nacos\.(standalone|server\.ip|home|member\.list|core\.member\.lookup\.type)"
    r"|address[._]server[._]\w+|rollcall\.(conf\.dir|data\.dir|member\.dns|leave\.graceMs|metrics\.token)"
    r"|nacos\.core\.auth\.(enabled|.*\.secret\.key|server\.identity\.\w+)|rollcall\.identity\.previousValue"
    r"|rollcall\.http\.tls\.(?!compatibility).*|nacos\.remote\.\w+\.rpc\.tls\..*"
)
"""Settings that the chart sets by values of their own, and secrets, which do not belong into a ConfigMap."""
WHOLE = re.compile(r"a whole number from (\d+) to (\d+)")
CHOICES = re.compile(r"[\w.-]+( or [\w.-]+)+")
MAIN, SECURITY, INTERFACES = "settings.md", "settings/security.md", "settings/interfaces.md"


class Subject(NamedTuple):
    """A group of settings: its page below ``docs``, its heading, the keys in it, and a sentence with links."""

    page: str
    title: str
    keys: re.Pattern[str]
    """Matches the first name of each key of the group."""
    text: str

    @property
    def anchor(self) -> str:
        """The anchor of the heading, as Markdown renderers make it."""
        return self.title.lower().replace(",", "").replace(" ", "-")


SUBJECTS = (
    Subject(
        MAIN,
        "Addresses, folders and console",
        re.compile(
            r"server\..+|nacos\.(standalone|server\.ip|home)|rollcall\.((conf|data)\.dir|http\.threads|announce|console\..+)"
        ),
        "[Ports](operations/install.md#ports) explains the ports of a node.",
    ),
    Subject(
        MAIN,
        "The member list",
        re.compile(r"nacos\.member\.list|nacos\.core\.member\.lookup\.type|address\..+|rollcall\.(member|leave)\..+"),
        "[The member list](operations/members.md#the-member-list) explains the sources, and how a node leaves.",
    ),
    Subject(
        MAIN,
        "Services and instances",
        re.compile(
            r"nacos\.naming\.(expire|client|clean|empty).+|nacos\.core\.param\.check\.enabled"
            r"|rollcall\.(warm|config|names)\..+"
        ),
        "[Names](names.md) has the characters that names may have, and [configuration "
        "calls](operations/check.md#configuration-calls) the clients that ask for configurations.",
    ),
    Subject(
        MAIN,
        "Replication between members",
        re.compile(
            r"nacos\.core\.protocol\.distro\..+|nacos\.naming\.distro\..+|nacos\.core\.member\.fail.+|rollcall\.distro\..+"
        ),
        "All times are in ms. The defaults suit members in one data centre.",
    ),
    Subject(
        MAIN,
        "Limits",
        re.compile(r"rollcall\.limit\..+"),
        "[Limits](limits.md) has the answer of a node at each limit.",
    ),
    Subject(
        SECURITY,
        "Users and tokens",
        re.compile(r"nacos\.core\.auth\.(enabled|plugin\..+)"),
        "[Users and permissions](../security/users.md) has the steps.",
    ),
    Subject(
        SECURITY,
        "Identity of members",
        re.compile(r"nacos\.core\.auth\.server\..+|rollcall\.(identity|cluster\.without).+"),
        "[Trust between members](../security/members.md) explains the secret, and how to change it.",
    ),
    Subject(
        SECURITY,
        "HTTPS",
        re.compile(r"rollcall\.http\.tls\..+"),
        "[TLS](../security/tls.md) explains certificates, and the way from plain HTTP to HTTPS.",
    ),
    Subject(
        SECURITY,
        "TLS of gRPC",
        re.compile(r"nacos\.remote\.\w+\.rpc\.tls\..+"),
        "These files also serve HTTPS, unless the settings of HTTPS name others.",
    ),
    Subject(
        SECURITY,
        "Browsers, UDP and health checks",
        re.compile(r"rollcall\.(http\.hosts|push|healthCheck).*"),
        "[Hardening](../security/hardening.md) explains what each of them relaxes.",
    ),
    Subject(
        INTERFACES,
        "gRPC",
        re.compile(r"rollcall\.rpc\..+|nacos\.remote\.server\.grpc\..+"),
        "Times are in ms. [gRPC](../grpc.md) describes both ports.",
    ),
    Subject(
        INTERFACES,
        "DNS",
        re.compile(r"rollcall\.dns\..+"),
        "[DNS](../dns.md) has the names and the answers.",
    ),
    Subject(
        INTERFACES,
        "Links between clusters",
        re.compile(r"rollcall\.(cluster\.id|link\..+)"),
        "`NAME` stands for the name of a [link](../links.md). A node reads these keys again when the file changes.",
    ),
    Subject(
        INTERFACES,
        "Metrics",
        re.compile(r"rollcall\.metrics\..+|nacos\.prometheus\..+"),
        "[Metrics](../observability/metrics.md#access) says who can read the page.",
    ),
    Subject(
        INTERFACES,
        "Logs",
        re.compile(r"rollcall\.(log|audit|http\.accessLog).*"),
        "[Logs](../observability/logs.md) describes each log.",
    ),
)
"""The groups, in the order of the pages."""
OTHERS = Subject(MAIN, "Other settings", re.compile(r".+"), "These settings belong to none of the groups above.")

HEAD = """\
# Settings

You can set each key in one of these ways. A later line takes precedence over an earlier one:

1. in `application.properties` in the configuration folder;
2. in the environment, as written or in capitals with underscores (`nacos.member.list`, `NACOS_MEMBER_LIST`);
3. by an option of the command line, for the few keys that have one.

A node does not start with a value that is not allowed; the error names the key and the allowed values. Rollcall warns
about unknown keys that begin with `rollcall.`, and about keys of Nacos that seem misspelt. It ignores keys of Nacos
that it does not have. `rollcall config` prints all settings with their sources, and the ignored keys.

`python -m scripts.docs.settings` generates these pages from the code.

"""
HEADS = {
    SECURITY: "# Settings of security\n\n[Settings](../settings.md) explains how to set a key.\n\n",
    INTERFACES: "# Settings of gRPC, DNS, links, metrics and logs\n\n"
    "[Settings](../settings.md) explains how to set a key.\n\n",
}
TOCTREE = "```{toctree}\n:hidden:\n\nsettings/security\nsettings/interfaces\n```\n\n"


def documents() -> dict[str, str]:
    """Return the text of each page, by its path below ``docs``.

    A key is in the first group whose pattern matches its name.
    """
    groups: dict[Subject, list[Key[Any]]] = {one: [] for one in (*SUBJECTS, OTHERS)}
    for key in (*ALL_KEYS, *FIELDS.values()):
        groups[next(one for one in groups if one.keys.fullmatch(key.name))].append(key)
    shown = {subject: keys for subject, keys in groups.items() if keys}
    pages = {MAIN: HEAD + _index(shown) + TOCTREE, **HEADS}
    for subject, keys in shown.items():
        rows = "".join(map(_row, keys))
        table = f"| key | default | meaning |\n|---|---|---|\n{rows}"
        pages[subject.page] += f"## {subject.title}\n\n{subject.text}\n\n{table}\n"
    return {page: text.rstrip("\n") + "\n" for page, text in pages.items()}


def _index(subjects: Iterable[Subject]) -> str:
    rows = []
    for one in subjects:
        page = "" if one.page == MAIN else one.page
        rows.append(f"- [{one.title}]({page}#{one.anchor})\n")
    return "".join(rows) + "\n"


def _row(key: Key[Any]) -> str:
    names = "<br>".join(f"`{name}`" for name in key.names)
    default = f"`{key.default}`" if key.default else ""
    return f"| {names} | {default} | {key.purpose}{_allowed(key)} |\n"


def _allowed(key: Key[Any]) -> str:
    allowed = key.kind.allowed
    if bounds := WHOLE.fullmatch(allowed):
        return f" Allowed: {bounds[1]} to {bounds[2]}."
    if CHOICES.fullmatch(allowed):
        *others, last = allowed.split(" or ")
        allowed = f"{', '.join(others)} or {last}"
    return "" if allowed == "any text" else f" Allowed: {allowed}."


def chart_settings() -> dict[str, Any]:
    """Return the JSON schema of the settings that the chart takes."""
    named = {name: _schema(key) for key in ALL_KEYS for name in key.names if not CHARTS_OWN.fullmatch(name)}
    return {"type": "object", "additionalProperties": False, "properties": named}


def _schema(key: Key[Any]) -> dict[str, Any]:
    allowed = key.kind.allowed
    if bounds := WHOLE.fullmatch(allowed):
        return {"type": "integer", "minimum": int(bounds[1]), "maximum": int(bounds[2])}
    if key.kind in (FLAG, FLAG_OR_NONE):
        return {"type": "boolean"}
    if CHOICES.fullmatch(allowed):
        return {"enum": allowed.split(" or ")}
    return {"type": "string", "description": allowed}


def chart_schema() -> str:
    """Return the text of the chart's schema, with the settings as they are."""
    schema = json.loads(CHART_SCHEMA.read_text(encoding="utf-8"))
    schema["definitions"]["settings"] = chart_settings()
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for name, text in documents().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
    CHART_SCHEMA.write_text(chart_schema(), encoding="utf-8")
