"""The open alerts: sent and not yet resolved, kept in a file from one check to the next."""

import json
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from app.rows.summary import Summary, Verdict
from app.tools.audit.report.alert import Delivery, post
from app.tools.audit.report.alert_bodies import NIGHT_LASTS_S, Alert, AlertFormat, AlertSource, open_classes

STATE_NAME = "alert.json"
_CLASSES_MAX = 100


@dataclass(frozen=True, slots=True)
class OpenAlerts:
    """The classes that were reported and are still open, since when, and the identity of the last message."""

    classes: tuple[str, ...] = ()
    since: str = ""
    told: str = ""
    """The identity of the last message; empty if that did not arrive."""


class AlertFile:
    """The file of the open alerts, in a folder or at a URI of fsspec."""

    def __init__(self, folder: str, name: str = STATE_NAME) -> None:
        """Open the folder; raise ImportError or ValueError if this machine cannot reach such a URI."""
        from app.tools.audit.format.file_systems import open_root

        self._filesystem, self._root = open_root(folder)
        self._name = name

    def read(self) -> OpenAlerts | None:
        """Return the alerts that an earlier check left; None if the file does not exist or cannot be read."""
        try:
            value = json.loads(self._filesystem.cat_file(f"{self._root}/{self._name}"))
        except (OSError, ValueError):
            return None
        return _decoded(value)

    def write(self, value: OpenAlerts) -> None:
        """Write the file; raise OSError if the folder takes no files."""
        from app.tools.audit.format.file_systems import write_whole

        self._filesystem.makedirs(self._root, exist_ok=True)
        write_whole(self._filesystem, f"{self._root}/{self._name}", json.dumps(asdict(value)).encode())


def _decoded(value: Any) -> OpenAlerts | None:
    match value:
        case {"classes": list(classes), "since": str(since), "told": str(told)}:
            return OpenAlerts(tuple(str(one) for one in classes[:_CLASSES_MAX]), since, told)
    return None


@dataclass(frozen=True, slots=True)
class Recipient:
    """The recipient of alerts, and the form in which they are sent."""

    url: str
    form: AlertFormat = AlertFormat.JSON
    cluster: str = "rollcall"
    source: AlertSource = AlertSource.CHECK
    lasts_s: float = NIGHT_LASTS_S


class Alerts:
    """Sends the recipient the open alerts, and once their end: again at the next summary if that did not arrive."""

    def __init__(self, recipient: Recipient, file: AlertFile | None, stop: Event | None = None) -> None:
        """``file``: None keeps the open alerts in memory only."""
        self._recipient, self._file, self._stop = recipient, file, stop
        self._open = file.read() if file else None

    def tell(self, summary: Summary, before: Summary | None = None, told: str = "") -> Delivery | None:
        """Post the alerts that the summary opens or ends; return None if there is nothing to send.

        ``before``: the summary of the last night, for the open alerts if no file has them. ``told``: the identity of
        the message; one that arrived is not sent again, except to Alertmanager, which would take the alert as resolved.

        Raises:
            OSError: the message was sent, and the file of the open alerts cannot be written.
        """
        known = self._open
        if known is None:
            known = OpenAlerts(open_classes(before), before.checked_at) if before else OpenAlerts()
        now = open_classes(summary)
        gone = tuple(sorted(set(known.classes) - set(now)))
        # A summary without a verdict ends nothing.
        ended, unknown = ((), gone) if summary.verdict is Verdict.UNJUDGED else (gone, ())
        to_alertmanager = self._recipient.form is AlertFormat.ALERTMANAGER
        is_known = told and told == known.told and not ended
        if not (now or ended) or (is_known and not to_alertmanager):
            return None
        recipient = self._recipient
        alert = Alert(summary, recipient.source, recipient.cluster, ended, unknown, known.since, recipient.lasts_s)
        delivery = post(recipient.url, alert, recipient.form, stop=self._stop)
        since = known.since if known.classes else summary.checked_at
        if delivery.delivered:
            self._keep(OpenAlerts((*now, *unknown), since if now else "", told if now else ""))
        else:
            self._keep(OpenAlerts(tuple(sorted({*known.classes, *now})), since))
        return delivery

    def _keep(self, value: OpenAlerts) -> None:
        if value != self._open:
            self._open = value
            if self._file:
                self._file.write(value)
