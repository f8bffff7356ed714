"""Holds the recorded conversations with a node; README.md describes them.

By hand, from the root: ``.venv/bin/python -m tests.conformance.replay 127.0.0.1:8848 --area beat``.
"""

import argparse
import gzip
import http.client
import json
import re
import secrets
import sys
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.compare import Target, differences, shown
from tests.support.processes import HANG_S

SCENARIOS = Path(__file__).with_name("scenarios")
AGENT = "conformance-replay/1"
JOBS = 4
AT_CONSOLE = "console"
"""Where a step of v3 goes to the console of Nacos 3, which has no context path."""
POLL_S = 0.1
"""Between two tries of a step that may need time."""
NO_SUCH_API = 501
"""No later answer of this path will be another, so it is not asked again."""
LINES_MAX = 6
"""Differences that are shown of one step."""

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One conversation. ``serial``: it changes the whole node for a while, so no other may run beside it."""

    name: str
    area: str
    steps: tuple[Step, ...]
    serial: bool
    note: str
    """Where a deliberate difference would be, or what is odd."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    media_type: str | None
    charset: str | None
    text: str
    headers: Mapping[str, str]
    """Names in lower case."""

    @property
    def body(self) -> Any:
        """The JSON value when the text is an object or array, else the text."""
        if self.text[:1] in ("{", "["):
            try:
                return json.loads(self.text)
            except ValueError:
                pass
        return self.text


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario went. ``failure`` is empty when all steps passed, else what the first one that did not says."""

    scenario: Scenario
    failure: str
    accepted: int
    """Steps that passed by their ``accept`` alone: the answer is another one than that of the real server."""

    @property
    def name(self) -> str:
        return f"{self.scenario.area}/{self.scenario.name}"


def load(areas: Iterable[str] = (), folder: Path = SCENARIOS) -> list[Scenario]:
    """Return the scenarios of these areas, of all for none."""
    wanted = set(areas)
    scenarios = []
    for file in sorted(folder.glob("*.jsonl")):
        if wanted and file.stem not in wanted:
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            scenarios.append(
                Scenario(
                    fields["name"],
                    fields["area"],
                    tuple(fields["steps"]),
                    fields.get("serial", False),
                    fields.get("note", ""),
                )
            )
    return scenarios


# --- requests ------------------------------------------------------------------------------------


def fill(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace ``${NAME}`` everywhere; a text that is exactly ``${NOW}`` or ``${PORT}`` becomes a number."""
    if isinstance(value, dict):
        return {fill_text(key, variables): fill(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, str):
        return int(variables[value[2:-1]]) if value in ("${NOW}", "${PORT}") else fill_text(value, variables)
    return value


def fill_text(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\{([A-Z]+)\}", lambda found: variables.get(found[1], found[0]), text)


def encode(fields: Any, variables: Mapping[str, str]) -> str:
    """Percent-encode an object, whose lists repeat their name; a text goes as it is written."""
    if isinstance(fields, str):
        return fill_text(fields, variables)
    pairs = [(key, item) for key, value in fields.items() for item in (value if isinstance(value, list) else [value])]
    filled = [(fill_text(key, variables), fill_text(str(item), variables)) for key, item in pairs]
    return urllib.parse.urlencode(filled, quote_via=urllib.parse.quote, safe="")


def _payload(step: Step, variables: Mapping[str, str]) -> tuple[bytes | None, dict[str, str]]:
    """The body, None for none at all, and the headers that come with it."""
    if "form" in step:
        content_type = "application/x-www-form-urlencoded;charset=UTF-8"
        return encode(step["form"], variables).encode(), {"Content-Type": content_type}
    if "body" in step:
        body, headers = step["body"], {}
        if isinstance(body, str):
            payload = fill_text(body, variables).encode()
        else:
            payload = json.dumps(fill(body, variables), ensure_ascii=False).encode()
            headers["Content-Type"] = "application/json;charset=UTF-8"
        return (gzip.compress(payload, mtime=0) if step.get("gzip") else payload), headers
    return (b"" if step["method"] in ("POST", "PUT", "PATCH") else None), {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it goes out, with exactly the headers that the step names and what its body needs."""

    method: str
    target: str
    headers: tuple[tuple[str, bytes], ...]
    payload: bytes | None


def call_of(target: Target, step: Step, variables: Mapping[str, str]) -> Call:
    """Return the request of a step."""
    context = "" if step.get("at") == AT_CONSOLE else target.context
    path = context + fill_text(step["path"], variables)
    if "query" in step:
        path += "?" + encode(step["query"], variables)
    payload, own_headers = _payload(step, variables)
    headers: dict[str, str | None] = {"User-Agent": AGENT, **own_headers, **step.get("headers", {})}
    pairs = [(name, fill_text(value, variables).encode()) for name, value in headers.items() if value is not None]
    if payload is not None:
        pairs.append(("Content-Length", b"%d" % len(payload)))
    return Call(step["method"], path, tuple(pairs), payload)


def send(target: Target, step: Step, variables: Mapping[str, str]) -> Answer:
    """Send one request.

    Raises:
        OSError, http.client.HTTPException: no whole answer came.
    """
    call = call_of(target, step, variables)
    connection = http.client.HTTPConnection(target.host, target.port, timeout=HANG_S)
    try:
        connection.putrequest(call.method, call.target, skip_accept_encoding=True)
        for name, value in call.headers:
            connection.putheader(name, value)
        connection.endheaders(call.payload)
        response = connection.getresponse()
        raw = response.read()
    finally:
        connection.close()
    media_type, _, parameters = (response.getheader("Content-Type") or "").partition(";")
    charset = re.search(r"charset=\"?([\w-]+)", parameters)
    return Answer(
        response.status,
        media_type.strip().lower() or None,
        charset[1].lower() if charset else None,
        raw.decode("utf-8", "backslashreplace"),
        {name.lower(): value for name, value in response.getheaders()},
    )


# --- answers -------------------------------------------------------------------------------------


def check(step: Step, answer: Answer, target: Target, variables: Mapping[str, str]) -> list[str]:
    """Return a line for each difference from what the step expects."""
    expect = step["expect"]
    if answer.status != expect["status"]:
        # The rest would only say the same in more words.
        return [f"status: want {expect['status']}, got {answer.status}: {shown(answer.text)}"]
    found = []
    if answer.text and (wanted_type := expect.get("content_type")):
        if answer.media_type != wanted_type:
            found.append(f"content type: want {wanted_type}, got {answer.media_type}")
        elif answer.charset not in (None, "utf-8"):
            found.append(f"content type: charset {answer.charset}")
    for name, value in expect.get("headers", {}).items():
        want = None if value is None else fill_text(value, variables)
        if (got := answer.headers.get(name.lower())) != want:
            found.append(f"header {name}: want {want!r}, got {got!r}")
    if "body" in expect:
        wanted_body = fill(expect["body"], variables)
        found += differences(wanted_body, answer.body, target, step.get("ignore_extra_keys", False))
    return found


def is_accepted(step: Step, status: int) -> bool:
    """Whether the step takes this status in place of all it expects: ``404``, ``4xx``, or a list of such."""
    wanted = step.get("accept", [])
    patterns = [wanted] if isinstance(wanted, str) else wanted
    return any(re.fullmatch(pattern.replace("x", r"\d"), str(status)) for pattern in patterns)


def run_step(target: Target, step: Step, run: str, kept: dict[str, str], patient: bool) -> tuple[list[str], bool]:
    """Return the differences of the last try, and whether they are accepted.

    Tries go on only while the step has time, and ``patient`` gives it. ``kept``: values of former answers, by the names
    of their variables; those that this step keeps are added.
    """
    given_s = step.get("eventually_s", 0.0) if patient else 0.0
    # A bound of the recording becomes one for what hangs.
    deadline_s = time.monotonic() + (max(given_s, HANG_S) if given_s else 0.0)
    while True:
        variables = target.variables(run) | kept
        status = None
        try:
            answer = send(target, step, variables)
            status = answer.status
            kept.update(kept_of(step, answer))
            found = check(step, answer, target, variables)
        except (OSError, http.client.HTTPException) as error:
            found = [f"no answer: {type(error).__name__}: {error}"]
        if not found or (status is not None and is_accepted(step, status)):
            return found, True
        if time.monotonic() > deadline_s or status == NO_SUCH_API:
            return found, False
        time.sleep(POLL_S)


def kept_of(step: Step, answer: Answer) -> dict[str, str]:
    """Return the fields of an answer that a step keeps, such as a token."""
    body = answer.body if isinstance(answer.body, dict) else {}
    return {name: str(body[key]) for name, key in step.get("keep", {}).items() if key in body}


def run_scenario(target: Target, scenario: Scenario, run: str) -> Outcome:
    """Send all steps in order. After one that failed the others are sent too, without waits: they may clean up."""
    failure, accepted = "", 0
    kept: dict[str, str] = {}
    for number, step in enumerate(scenario.steps, 1):
        if not failure:
            time.sleep(step.get("sleep_s", 0.0))
        found, is_taken = run_step(target, step, run, kept, patient=not failure)
        accepted += bool(found and is_taken)
        if not is_taken and not failure:
            query = f" {shown(step['query'])}" if "query" in step else ""
            lines = [f"step {number}: {step['method']} {step['path']}{query}", *found[:LINES_MAX]]
            if len(found) > LINES_MAX:
                lines.append(f"… {len(found) - LINES_MAX} more")
            failure = "\n    ".join(lines)
    return Outcome(scenario, failure, accepted)


def run_all(target: Target, scenarios: Iterable[Scenario], jobs: int = JOBS) -> list[Outcome]:
    """Run scenarios side by side, then the serial ones one after the other."""
    run = "k" + secrets.token_hex(4)
    # The longest first, or the run ends with one worker sleeping.
    ordered = sorted(scenarios, key=_waiting_s, reverse=True)
    together = [scenario for scenario in ordered if not scenario.serial]
    alone = [scenario for scenario in ordered if scenario.serial]
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda scenario: run_scenario(target, scenario, run), together))
    return outcomes + [run_scenario(target, scenario, run) for scenario in alone]


def _waiting_s(scenario: Scenario) -> float:
    return sum(step.get("sleep_s", 0.0) + step.get("eventually_s", 0.0) for step in scenario.steps)


def count_by_area(outcomes: Iterable[Outcome]) -> dict[str, tuple[int, int]]:
    """How many passed, and how many there are, by area."""
    passed, total = Counter[str](), Counter[str]()
    for outcome in outcomes:
        total[outcome.scenario.area] += 1
        passed[outcome.scenario.area] += not outcome.failure
    return {area: (passed[area], total[area]) for area in sorted(total)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay by hand; return 0 when all passed."""
    parser = argparse.ArgumentParser(description="Replay the recorded conversations with a standalone node.")
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--context", default="/nacos")
    parser.add_argument("--folder", type=Path, default=SCENARIOS, help="where the conversations are")
    parser.add_argument("--area", action="append", default=[], help="only this area; may be repeated")
    parser.add_argument("--name", default="", help="only scenarios with this text in their name")
    parser.add_argument("--jobs", type=int, default=JOBS)
    options = parser.parse_args(arguments)
    host, _, port = options.address.rpartition(":")
    scenarios = [one for one in load(options.area, options.folder) if options.name in one.name]
    outcomes = run_all(Target(host, int(port), options.context), scenarios, options.jobs)
    for outcome in outcomes:
        if outcome.failure:
            print(f"FAIL {outcome.name}\n    {outcome.failure}")
            if outcome.scenario.note:
                print(f"    note: {outcome.scenario.note}")
    for area, (passed, total) in count_by_area(outcomes).items():
        print(f"{area:<18} {passed:>3} of {total}")
    failed, accepted = sum(bool(one.failure) for one in outcomes), sum(one.accepted for one in outcomes)
    print(f"{len(outcomes) - failed} of {len(outcomes)} scenarios passed, {accepted} steps in them by accept")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
