"""Who makes a call: by signature, by the secret itself, by address."""

from functools import partial

import pytest

from app.auth.member_calls import ALL_MEMBERS, CLIENT, Caller, Unidentified, claims_member
from app.auth.signed import LATE_MS_MAX, SIGNATURE
from distro.wire.call_trust import Question
from tests.support.identified import HEADER, NEW, OLD, IdentifiedMember, IdentifiedPair, SentCall

STRANGER = "10.9.9.9"
NACOS = "10.0.0.7:8848"


@pytest.fixture
def pair() -> IdentifiedPair:
    return IdentifiedPair()


def refused(found: Caller | Unidentified, status: int, text: str) -> None:
    assert isinstance(found, Unidentified), found
    assert (found.status, text in found.text) == (status, True), found


class TestSigned:
    def test_a_signed_call_is_its_senders(self, pair: IdentifiedPair) -> None:
        call = pair.first.call(pair.second, b"{}", {"Rollcall-Member": pair.first.address})
        assert OLD not in "".join(call.headers.values())
        assert pair.second.take(call) == Caller(True, True, pair.first.address)
        assert pair.second.callers.stats.signed == 2

    def test_what_is_replayed_is_refused(self, pair: IdentifiedPair) -> None:
        call = pair.first.call(pair.second)
        assert isinstance(pair.second.take(call), Caller)
        for _ in range(2):
            refused(pair.second.take(call), 401, "used before")
        assert pair.second.callers.stats.refused_replayed == 2

    @pytest.mark.parametrize("late_ms", [LATE_MS_MAX + 1, -LATE_MS_MAX - 1, 3_600_000])
    def test_a_captured_call_ends_with_its_time(self, pair: IdentifiedPair, late_ms: int) -> None:
        call = pair.first.call(pair.second)
        pair.second.clock.now_ms += late_ms
        refused(pair.second.take(call), 401, "another time or run")
        assert pair.second.callers.stats.refused_clock == 2, "the first was before the clocks were known"

    def test_it_counts_at_one_receiver_and_for_one_run_of_it(self, pair: IdentifiedPair) -> None:
        third = IdentifiedMember("10.0.0.3")
        third.listed.add(pair.first.address)
        call = pair.first.call(pair.second)
        refused(third.take(call), 401, "another time or run")
        pair.second.set_up(OLD)
        refused(pair.second.take(call), 401, "another time or run")

    def test_a_restarted_receiver_costs_one_refusal(self, pair: IdentifiedPair) -> None:
        pair.second.set_up(OLD)
        pair.second.clock.now_ms = 1
        assert [pair.first.ask(pair.second) for _ in range(3)] == [2, 1, 1]

    def test_wrong_clocks_do_no_harm(self, pair: IdentifiedPair) -> None:
        for member, step_ms in ((pair.first, 3_600_000), (pair.second, 3_600_000)):
            member.clock.now_ms += step_ms
        assert pair.first.ask(pair.second) == 1

    def test_a_sender_poses_as_no_other(self, pair: IdentifiedPair) -> None:
        third = IdentifiedMember("10.0.0.3")
        call = pair.first.call(pair.second, headers={"Rollcall-Member": third.address})
        refused(pair.second.take(call), 403, "another member")

    def test_it_comes_from_a_members_address(self, pair: IdentifiedPair) -> None:
        call = pair.first.call(pair.second)
        call.remote_ip = STRANGER
        found = pair.second.take(call)
        refused(found, 403, "10.9.9.9 is not the address of a listed member")
        assert isinstance(found, Unidentified)
        assert not found.headers, "a stranger is not told the clock"
        pair.second.parting.add(STRANGER)
        assert pair.second.take(call) == Caller(False, True, pair.first.address)

    @pytest.mark.parametrize("text", ["", "1", "x" * 600, "2 a b 1 s 1 d m", "1 a b -1 s 1 d m", "1 a b 1 s ² d m"])
    def test_what_is_no_signature(self, pair: IdentifiedPair, text: str) -> None:
        call = SentCall("PUT", "/x", b"", {SIGNATURE: text}, pair.first.ip)
        refused(pair.second.take(call), 403, "not understood")

    def test_a_large_body_is_announced_by_a_signed_head(self, pair: IdentifiedPair) -> None:
        def may(call: SentCall) -> bool:
            headers = {name.lower(): value for name, value in call.headers.items()}
            return pair.second.callers.may_be_large(call.method, call.target, headers.get, call.remote_ip)

        call = pair.first.call(pair.second, b"x" * 100)
        assert may(call)
        assert isinstance(pair.second.take(call), Caller), "asking does not use it up"
        assert not may(SentCall(call.method, call.target + "?", b"", call.headers, call.remote_ip))
        assert not may(SentCall(call.method, call.target, b"", call.headers, STRANGER))
        assert not may(SentCall(call.method, call.target, b"", {HEADER: OLD}, call.remote_ip))
        pair.second.set_up(OLD, nacos=NACOS)
        pair.second.listed.add(NACOS)
        assert may(SentCall(call.method, call.target, b"", {HEADER: OLD}, "10.0.0.7"))
        assert not may(SentCall(call.method, call.target, b"", {HEADER: NEW}, "10.0.0.7"))


class TestRotation:
    @pytest.mark.parametrize("restarted", ["first", "second"])
    def test_no_call_is_lost_while_a_value_is_changed(self, pair: IdentifiedPair, restarted: str) -> None:
        ahead, behind = (pair.first, pair.second) if restarted == "first" else (pair.second, pair.first)
        ahead.set_up(NEW, OLD)
        assert ahead.ask(behind) == 2, "it learns the clock, and that the other one has the old value"
        assert behind.ask(ahead) == 2
        assert (ahead.ask(behind), behind.ask(ahead)) == (1, 1)
        behind.set_up(NEW, OLD)
        assert (ahead.ask(behind), behind.ask(ahead)) == (2, 2)
        assert (ahead.ask(behind), behind.ask(ahead)) == (1, 1)
        ahead.set_up(NEW)
        assert (ahead.ask(behind), behind.ask(ahead)) == (2, 2)
        behind.set_up(NEW)
        assert (ahead.ask(behind), behind.ask(ahead)) == (2, 2)
        assert (ahead.ask(behind), behind.ask(ahead)) == (1, 1)

    def test_who_has_another_secret_learns_nothing(self, pair: IdentifiedPair) -> None:
        pair.second.set_up(NEW)
        found = pair.second.take(pair.first.call(pair.second))
        refused(found, 401, "another call or secret")
        assert isinstance(found, Unidentified)
        headers = {name.lower(): value for name, value in found.headers.items()}
        assert not pair.first.signer.learn(pair.second.address, headers)
        assert pair.first.deadlines.clock_of(pair.second.address) != pair.second.deadlines.clock_of(pair.second.address)

    def test_a_clock_without_proof_is_not_believed(self, pair: IdentifiedPair) -> None:
        known = pair.first.deadlines.clock_of(pair.second.address)
        forged = {"rollcall-clock": f"{pair.second.address}~9 1", "rollcall-proof": "x"}
        for headers in (forged, {}, {"rollcall-clock": forged["rollcall-clock"]}):
            assert not pair.first.signer.learn(pair.second.address, headers)
        told = {name.lower(): value for name, value in pair.second.callers.clock_headers(pair.first.address).items()}
        assert not pair.first.signer.learn("10.0.0.3:8848", told), "the clock of another member"
        assert not pair.second.signer.learn(pair.second.address, told), "told to another caller"
        assert pair.first.deadlines.clock_of(pair.second.address) == known


class TestPlain:
    @pytest.mark.parametrize("named", [NACOS, "10.0.0.7", "10.9.0.0/16, 10.0.0.0/24", "10.0.0.3,10.0.0.7:8848"])
    def test_real_nacos_that_is_named_is_known_by_the_secret(self, pair: IdentifiedPair, named: str) -> None:
        pair.second.set_up(OLD, nacos=named)
        pair.second.listed.add(NACOS)
        for claims in (True, False):
            call = SentCall("PUT", "/x", b"", {HEADER: OLD}, "10.0.0.7", claims)
            assert pair.second.take(call) == ALL_MEMBERS
        assert pair.second.callers.stats.plain == 2

    @pytest.mark.parametrize("claims", [True, False])
    @pytest.mark.parametrize("value", [NEW, "", OLD[:-1], OLD + " ", "ü"])
    def test_a_wrong_one_makes_nobody_a_member(self, pair: IdentifiedPair, value: str, claims: bool) -> None:
        pair.second.set_up(OLD, nacos=NACOS)
        pair.second.listed.add(NACOS)
        found = pair.second.take(SentCall("PUT", "/x", b"", {HEADER: value}, "10.0.0.7", claims))
        if claims:
            refused(found, 403, "needs the identity")
            assert pair.second.callers.stats.refused_value == 1
        else:
            assert found == CLIENT

    def test_it_is_taken_from_named_members_alone(self, pair: IdentifiedPair) -> None:
        refused(pair.second.take(SentCall("PUT", "/x", b"", {HEADER: OLD}, pair.first.ip)), 403, "needs the identity")
        refused(pair.second.take(SentCall("PUT", "/x", b"", {HEADER: OLD}, STRANGER)), 403, "needs the identity")
        pair.second.set_up(OLD, nacos=f"{pair.first.ip}:9999")  # real Nacos on the same machine
        refused(pair.second.take(SentCall("PUT", "/x", b"", {HEADER: OLD}, pair.first.ip)), 403, "needs the identity")
        pair.second.listed.add(f"{pair.first.ip}:9999")
        named = {HEADER: OLD, "Rollcall-Member": pair.first.address}
        refused(pair.second.take(SentCall("PUT", "/x", b"", named, pair.first.ip)), 403, "needs the identity")
        assert pair.second.take(SentCall("PUT", "/x", b"", {HEADER: OLD}, pair.first.ip)) == ALL_MEMBERS

    def test_both_values_count_while_it_is_changed(self, pair: IdentifiedPair) -> None:
        pair.second.set_up(NEW, OLD, nacos=NACOS)
        pair.second.listed.add(NACOS)
        for value in (OLD, NEW):
            assert pair.second.take(SentCall("PUT", "/x", b"", {HEADER: value}, "10.0.0.7")) == ALL_MEMBERS

    @pytest.mark.parametrize("named", ["", "10.0.0.8", "10.0.0.7:8849", "10.1.0.0/16", "nacos-0.nacos"])
    def test_it_is_sent_to_named_members_alone(self, pair: IdentifiedPair, named: str) -> None:
        pair.first.set_up(OLD, nacos=named)
        unknown = IdentifiedMember("10.0.0.7")
        for member in (unknown, pair.second):
            assert OLD not in "".join(pair.first.call(member).headers.values())
        pair.first.set_up(OLD, nacos=NACOS)
        assert pair.first.call(unknown).headers[HEADER] == OLD
        assert HEADER not in pair.first.call(pair.second).headers

    def test_members_that_do_not_know_each_other_yet_begin_with_a_signature(self) -> None:
        first, second = IdentifiedMember("10.0.0.1"), IdentifiedMember("10.0.0.2")
        first.listed.add(second.address)
        second.listed.add(first.address)
        assert [first.ask(second), first.ask(second)] == [2, 1]

    def test_the_log_names_the_setting_for_a_member_that_sends_the_secret(
        self, pair: IdentifiedPair, caplog: pytest.LogCaptureFixture
    ) -> None:
        pair.second.listed.add(NACOS)
        for _ in range(3):
            refused(pair.second.take(SentCall("PUT", "/x", b"", {HEADER: OLD}, "10.0.0.7")), 403, "needs the identity")
        assert [one.getMessage() for one in caplog.records if "nacosMembers" in one.getMessage()] == [
            "a call of 10.0.0.7 with the members' secret itself is refused: if the member there is real Nacos, "
            "add it to rollcall.identity.nacosMembers"
        ]
        assert OLD not in caplog.text


class TestQuestions:
    """The first call on each new connection, which a member answers with a proof that it knows the secret."""

    def answer(self, to: IdentifiedMember, asked: Question, remote_ip: str) -> dict[str, str]:
        found = to.take(SentCall("GET", asked.target, b"", dict(asked.headers), remote_ip))
        assert isinstance(found, Unidentified), found
        return {name.lower(): value for name, value in found.headers.items()}

    def ask(self, pair: IdentifiedPair) -> Question:
        asked = pair.first.signer.question(pair.second.address)
        assert asked is not None
        assert OLD not in repr(asked)
        return asked

    def test_a_member_proves_that_it_knows_the_secret(self, pair: IdentifiedPair) -> None:
        pair.second.set_up(OLD)  # another run: its clock is learnt with the proof
        asked = self.ask(pair)
        assert asked.is_answered(self.answer(pair.second, asked, pair.first.ip))
        assert pair.second.callers.stats.proved == 1
        assert pair.first.ask(pair.second) == 1, "the clock is known, and no call is refused"

    def test_a_proof_answers_one_question(self, pair: IdentifiedPair) -> None:
        first, second = self.ask(pair), self.ask(pair)
        told = self.answer(pair.second, first, pair.first.ip)
        assert not second.is_answered(told)
        refusal = pair.second.callers.clock_headers(pair.first.address)
        assert not second.is_answered({name.lower(): value for name, value in refusal.items()})

    def test_no_member_answers_for_another(self, pair: IdentifiedPair) -> None:
        third = IdentifiedMember("10.0.0.3")
        third.listed.add(pair.first.address)
        asked = self.ask(pair)
        assert not asked.is_answered(self.answer(third, asked, pair.first.ip)), "passed on by whoever was asked"

    def test_whoever_does_not_know_the_secret_proves_nothing(
        self, pair: IdentifiedPair, caplog: pytest.LogCaptureFixture
    ) -> None:
        pair.second.set_up(NEW)
        for _ in range(3):
            asked = self.ask(pair)
            assert not asked.is_answered(self.answer(pair.second, asked, pair.first.ip))
            assert not asked.is_answered({})
        (line,) = [one.getMessage() for one in caplog.records if "does not prove" in one.getMessage()]
        assert line.startswith(f"{pair.second.address} does not prove")
        assert "rollcall.identity.nacosMembers" in line

    def test_it_is_no_call(self, pair: IdentifiedPair) -> None:
        """Whoever saw one gets nothing by sending it again, to any path."""
        asked = self.ask(pair)
        for target in (asked.target, "/nacos/v1/ns/distro/datums"):
            found = pair.second.take(SentCall("GET", target, b"", dict(asked.headers), pair.first.ip))
            assert isinstance(found, Unidentified)
        refused(pair.second.take(SentCall("GET", "/", b"", dict(asked.headers), STRANGER)), 403, "not the address")

    def test_named_nacos_and_members_without_a_secret_are_asked_nothing(self, pair: IdentifiedPair) -> None:
        pair.first.set_up(OLD, nacos=pair.second.address)
        assert pair.first.signer.question(pair.second.address) is None
        pair.first.set_up("")
        assert pair.first.signer.question(pair.second.address) is None

    def test_the_key_of_both_is_found_while_it_is_changed(self, pair: IdentifiedPair) -> None:
        pair.first.set_up(NEW, OLD)
        asked = pair.first.signer.question(pair.second.address)
        assert asked is not None
        assert asked.is_answered(self.answer(pair.second, asked, pair.first.ip))
        assert pair.first.ask(pair.second) == 1


class TestNone:
    def test_a_call_that_says_it_is_a_members_needs_more(self, pair: IdentifiedPair) -> None:
        for ip in (pair.first.ip, STRANGER):
            refused(pair.second.take(SentCall("PUT", "/x", b"", {}, ip)), 403, "needs the identity")
            assert pair.second.take(SentCall("PUT", "/x", b"", {}, ip, claims=False)) == CLIENT
        assert pair.second.callers.stats.refused_missing == 2

    def test_without_an_identity_the_address_decides(self, pair: IdentifiedPair) -> None:
        pair.second.set_up("")
        for claims in (True, False):
            assert pair.second.take(SentCall("PUT", "/x", b"", {}, pair.first.ip, claims)) == ALL_MEMBERS
        refused(pair.second.take(SentCall("PUT", "/x", b"", {}, STRANGER)), 403, "not the address of a listed member")
        assert pair.second.take(SentCall("PUT", "/x", b"", {}, STRANGER, claims=False)) == CLIENT
        assert pair.second.call(pair.first).headers == {}

    @pytest.mark.parametrize(
        ("headers", "claims"),
        [
            ({"user-agent": "Nacos-Server:1.4.8"}, True),
            ({"user-agent": "my Nacos-Server"}, True),
            ({"client-version": "Nacos-Server"}, True),
            ({"rollcall-wants-change": "1"}, True),
            ({"rollcall-anything": ""}, True),
            ({"user-agent": "Nacos-Java-Client:v1.4.8", "x-rollcall": "1"}, False),
            ({}, False),
        ],
    )
    def test_what_says_that_a_member_calls(self, headers: dict[str, str], claims: bool) -> None:
        assert claims_member(headers) is claims


class TestGrpc:
    def message(self, pair: IdentifiedPair, named: str, **headers: str) -> Caller | Unidentified:
        return pair.second.callers.caller_by_grpc("DistroDataRequest", headers, b"{}", pair.first.ip, named)

    def test_a_signed_message(self, pair: IdentifiedPair) -> None:
        signed = pair.first.signer.headers(pair.second.address, "GRPC", "DistroDataRequest", b"{}", {})
        assert self.message(pair, pair.first.address, **signed) == Caller(True, True, pair.first.address)
        refused(self.message(pair, pair.first.address, **signed), 401, "used before")
        signed = pair.first.signer.headers(pair.second.address, "GRPC", "DistroDataRequest", b"{}", {})
        refused(self.message(pair, "10.0.0.3:8848", **signed), 403, "another member")
        for over_http in (("PUT", "DistroDataRequest"), ("GRPC", "MemberReportRequest")):
            other = pair.first.signer.headers(pair.second.address, *over_http, b"{}", {})
            refused(self.message(pair, pair.first.address, **other), 401, "another call")

    def test_real_nacos_that_names_no_secret_is_exempted_by_its_address(self, pair: IdentifiedPair) -> None:
        nacos = f"{pair.first.ip}:7777"
        pair.second.listed.add(nacos)
        pair.second.set_up(OLD, nacos=nacos)
        refused(self.message(pair, ""), 403, "needs the identity")
        assert self.message(pair, "", **{HEADER: OLD}) == ALL_MEMBERS, "Nacos since 2.5 sends it"
        setup = partial(pair.second.callers.caller_by_grpc, "ConnectionSetupRequest", {}, b"{}")
        assert setup(pair.first.ip, "") == CLIENT, "but not with the setup of its connection"
        refused(setup(pair.first.ip, nacos), 403, "needs the identity")
        refused(setup(STRANGER, ""), 403, "needs the identity")
        pair.second.set_up(OLD, exempt=frozenset({nacos}))
        assert self.message(pair, "") == ALL_MEMBERS
        refused(self.message(pair, pair.first.address), 403, "needs the identity")
        refused(self.message(pair, "", **{HEADER: NEW}), 403, "needs the identity")
        pair.second.listed.discard(nacos)
        refused(self.message(pair, ""), 403, "needs the identity")


class TestSizes:
    """Who may send as much as members do, before the body is here."""

    def test_over_http_a_clock_that_is_off_is_for_larger_bodies_alone(self, pair: IdentifiedPair) -> None:
        call, callers = pair.first.call(pair.second), pair.second.callers
        header = {name.lower(): value for name, value in call.headers.items()}.get
        pair.second.clock.now_ms += LATE_MS_MAX + 1
        for remote_ip, target, expected in (
            (call.remote_ip, call.target, True), (STRANGER, call.target, False), (call.remote_ip, "/other", False)
        ):  # fmt: skip
            assert callers.may_be_member(call.method, target, header, remote_ip) is expected
            assert not callers.may_be_large(call.method, target, header, remote_ip)

    def test_over_grpc_it_takes_the_secret_and_the_address_of_a_named_member(self, pair: IdentifiedPair) -> None:
        kind, named_ip = "DistroDataRequest", NACOS.partition(":")[0]
        pair.second.set_up(OLD, nacos=NACOS)
        pair.second.listed.add(NACOS)
        for headers, remote_ip, expected in (
            ({}, named_ip, False),
            ({HEADER: "wrong"}, named_ip, False),
            ({HEADER: OLD}, STRANGER, False),
            ({HEADER: OLD}, pair.first.ip, False),
            ({HEADER: OLD}, named_ip, True),
        ):
            assert pair.second.callers.may_be_large_over_grpc(kind, headers, remote_ip, "") is expected
