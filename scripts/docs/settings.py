"""Writes docs/settings.md, and the settings that the Helm chart's schema takes, from the table of setting keys."""

import json
import re
from pathlib import Path
from typing import Any

from app.config.link_settings import FIELDS
from app.config.settings import ALL_KEYS
from app.config.settings_keys import FLAG, FLAG_OR_NONE, Key

ROOT = Path(__file__).resolve().parents[2]
CHART_SCHEMA = ROOT / "deploy" / "helm" / "rollcall" / "values.schema.json"
CHARTS_OWN = re.compile(
    r"server\.(address|port)|nacos\.(standalone|server\.ip|home|member\.list|core\.member\.lookup\.type)"
    r"|address[._]server[._]\w+|rollcall\.(conf\.dir|data\.dir|member\.dns|leave\.graceMs|metrics\.token)"
    r"|nacos\.core\.auth\.(enabled|.*\.secret\.key|server\.identity\.\w+)|rollcall\.identity\.previousValue"
    r"|rollcall\.http\.tls\.(?!compatibility).*|nacos\.remote\.\w+\.rpc\.tls\..*"
)
"""Settings that the chart sets by values of their own, and secrets, which do not belong into a ConfigMap."""

HEAD = """\
# Settings

You can set each key in the environment, as written or in capitals with underscores (`nacos.member.list`,
`NACOS_MEMBER_LIST`), or in `application.properties` in the configuration folder. The environment takes precedence over
the file, and a command-line option over both. A node does not start with a value that is not allowed. Rollcall warns
about unknown keys that begin with `rollcall.`, and about keys of Nacos that seem misspelt. It ignores keys of Nacos
that it does not have; `rollcall config` lists them. The keys of [links](links.md) have the name of a link in place of
`NAME`, and a node reads them again when the file changes.

Made by `python -m scripts.docs.settings`.

| key | default | allowed | what it is for |
|---|---|---|---|
"""


def document() -> str:
    """Return the text of the page."""
    rows = []
    for key in (*ALL_KEYS, *FIELDS.values()):
        names = "<br>".join(f"`{name}`" for name in key.names)
        default = f"`{key.default}`" if key.default else ""
        rows.append(f"| {names} | {default} | {key.kind.allowed} | {key.purpose} |\n")
    return HEAD + "".join(rows)


def chart_settings() -> dict[str, Any]:
    """Return the JSON schema of the settings that the chart takes."""
    named = {name: _schema(key) for key in ALL_KEYS for name in key.names if not CHARTS_OWN.fullmatch(name)}
    return {"type": "object", "additionalProperties": False, "properties": named}


def _schema(key: Key[Any]) -> dict[str, Any]:
    allowed = key.kind.allowed
    if bounds := re.fullmatch(r"a whole number from (\d+) to (\d+)", allowed):
        return {"type": "integer", "minimum": int(bounds[1]), "maximum": int(bounds[2])}
    if key.kind in (FLAG, FLAG_OR_NONE):
        return {"type": "boolean"}
    if re.fullmatch(r"[\w.-]+( or [\w.-]+)+", allowed):
        return {"enum": allowed.split(" or ")}
    return {"type": "string", "description": allowed}


def chart_schema() -> str:
    """Return the text of the chart's schema, with the settings as they are."""
    schema = json.loads(CHART_SCHEMA.read_text(encoding="utf-8"))
    schema["definitions"]["settings"] = chart_settings()
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(document(), encoding="utf-8")
    CHART_SCHEMA.write_text(chart_schema(), encoding="utf-8")
