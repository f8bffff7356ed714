"""The settings of metrics, logs, the audit log and the console."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.config.settings_keys import FILE_OR_NONE, FLAG, FOLDER_OR_NONE, TEXT, Key, SettingError, one_of, whole
from app.languages.catalogues import N_
from app.languages.phrases import phrase

METRICS = Key(("rollcall.metrics.enabled",), FLAG, "true", "Count requests by route, and answer /metrics.")
METRICS_TOKEN = Key(
    ("rollcall.metrics.token",),
    TEXT,
    "",
    "A secret that scrapes must send, as Authorization: Bearer; at least 16 characters. Without one /metrics is open "
    "while users are off, and for administrators when they are on.",
)
METRICS_OPEN = Key(
    ("rollcall.metrics.open",),
    FLAG,
    "false",
    "Answer /metrics and discovery requests from anyone, even when users are on.",
)
DISCOVERY = Key(
    ("nacos.prometheus.metrics.enabled",),
    FLAG,
    "false",
    "Answer Prometheus's HTTP service discovery under /prometheus: instances as targets.",
)
JSON = "json"
LOG_FORMAT = Key(("rollcall.log.format",), one_of("text", JSON), "text", "How lines of the log are written.")
ACCESS_LOG = Key(("rollcall.http.accessLog",), FLAG, "false", "Write a line for each HTTP request to logs/access.log.")
AUDIT = Key(("rollcall.audit.enabled",), FLAG, "true", "Write each change and its author to the audit log.")
AUDIT_INSTANCES = Key(
    ("rollcall.audit.instances",), FLAG, "true", "Write registrations and deregistrations to the audit log, too."
)
AUDIT_FILE = Key(
    ("rollcall.audit.file",),
    FILE_OR_NONE,
    "",
    "The audit log. Default: logs/audit.log in the data folder.",
)
SECURITY_FILE = Key(
    ("rollcall.audit.securityFile",),
    FILE_OR_NONE,
    "",
    "The security log. Default: security.log in the folder of the audit log.",
)
SECURITY_FILE_MB = Key(
    ("rollcall.audit.securityFileMb",),
    whole(1, 10_000),
    "32",
    "A file of the security log is closed at this size (MB).",
)
SECURITY_FILES = Key(("rollcall.audit.securityFiles",), whole(1, 100), "16", "How many files of it are kept.")
LOG_FILE_MB = Key(
    ("rollcall.log.fileMb",),
    whole(1, 10_000),
    "64",
    "A file of the access or audit log is closed at this size (MB).",
)
LOG_FILES = Key(("rollcall.log.files",), whole(1, 100), "8", "How many files of each of these logs are kept.")

CONSOLE = Key(("rollcall.console.enabled",), FLAG, "true", "Serve the console, the pages for browsers.")
CONSOLE_REPORTS = Key(
    ("rollcall.console.reports",),
    FOLDER_OR_NONE,
    "",
    "The folder of the nightly audit's reports, which holds night=D/summary.json, for the console to show.",
)

OBSERVABILITY_KEYS: tuple[Key[Any], ...] = (
    METRICS,
    METRICS_TOKEN,
    METRICS_OPEN,
    DISCOVERY,
    LOG_FORMAT,
    ACCESS_LOG,
    AUDIT,
    AUDIT_INSTANCES,
    AUDIT_FILE,
    SECURITY_FILE,
    SECURITY_FILE_MB,
    SECURITY_FILES,
    LOG_FILE_MB,
    LOG_FILES,
    CONSOLE,
    CONSOLE_REPORTS,
)
TOKEN_CHARS_MIN = 16


@dataclass(frozen=True, slots=True)
class Observability:
    """The settings of metrics, logs and the console."""

    metrics: bool
    metrics_token: str = field(repr=False)
    metrics_open: bool
    discovery: bool
    log_format: str
    access_log: bool
    access_file: Path
    audit: bool
    audit_instances: bool
    audit_file: Path
    security_file: Path | None
    """None: in the folder of the audit log."""
    security_file_bytes: int
    security_files: int
    log_file_bytes: int
    log_files: int
    console: bool
    """True if the pages for browsers are served."""
    console_reports: Path | None
    """The folder of the nightly reports that the console shows."""


def observability(get: Callable[[Key[Any]], Any], data_dir: Path) -> Observability:
    """Return the settings, read by ``get``.

    Raises:
        SettingError: the scrape token is too short.
    """
    token = get(METRICS_TOKEN)
    if token and len(token) < TOKEN_CHARS_MIN:
        text = N_("%(key)s is not allowed: at least %(count)s characters")
        raise SettingError(phrase(text, key=METRICS_TOKEN.name, count=TOKEN_CHARS_MIN))
    logs = data_dir / "logs"
    return Observability(
        metrics=get(METRICS),
        metrics_token=token,
        metrics_open=get(METRICS_OPEN),
        discovery=get(DISCOVERY),
        log_format=get(LOG_FORMAT),
        access_log=get(ACCESS_LOG),
        access_file=logs / "access.log",
        audit=get(AUDIT),
        audit_instances=get(AUDIT_INSTANCES),
        audit_file=get(AUDIT_FILE) or logs / "audit.log",
        security_file=get(SECURITY_FILE),
        security_file_bytes=get(SECURITY_FILE_MB) * 1_000_000,
        security_files=get(SECURITY_FILES),
        log_file_bytes=get(LOG_FILE_MB) * 1_000_000,
        log_files=get(LOG_FILES),
        console=get(CONSOLE),
        console_reports=get(CONSOLE_REPORTS),
    )
