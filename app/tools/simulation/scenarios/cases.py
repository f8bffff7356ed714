"""Each protective rule, with a world that holds with the rule and, in some of its seeds, breaks without it.

``WORLDS`` are those in which all rules are at work.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios import (
    rules,
    rules_10_to_17,
    rules_of_links,
    rules_of_words,
    without,
    without_10_to_17,
    without_links,
)
from app.tools.simulation.scenarios.links import links_agree
from app.tools.simulation.scenarios.rules import Trial
from app.tools.simulation.scenarios.scenarios import clients_agree, members_agree, mixed_agree
from app.tools.simulation.world.linked_world import LinkedMember, LinkedWorld
from app.tools.simulation.world.sim_connections import ConnectedMember
from app.tools.simulation.world.world import World

WORLDS: dict[str, Callable[..., World | LinkedWorld]] = {
    "members": members_agree,
    "clients": clients_agree,
    "mixed": mixed_agree,
    "links": links_agree,
}
"""The scenarios that ``tests.simulation.run`` can run, by name: each takes a seed."""


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One rule, in a world where nothing else would repair the faults that it prevents."""

    name: str
    """One word, for a command line."""
    rule: str
    """The number of the rule in replication.md, if it has one, and a short text."""
    trial: Trial
    with_rule: type[SimMember]
    without_rule: type[SimMember]
    seeds: int = 6
    """The number of first seeds in which the world breaks at least once without the rule."""


CASES = (
    RuleCase("retry", "retry", rules.sends_get_lost, without.NoVerify, without.NoRetry, seeds=12),
    RuleCase("one-send", "one send in flight", rules.sends_overtake, without.NoVersions, without.ManyInFlight),
    RuleCase("versions", "versions", rules.sends_repeat_late, without.NoVerify, without.NoVersions),
    RuleCase("delta-base", "R5, the base of a delta", rules.sends_get_lost, without.AssumesArrival, without.AnyBase),
    RuleCase("verify", "verify", rules.datum_is_wiped, SimMember, without.NoVerify),
    RuleCase("verify-all", "verify, all keys", rules.datum_is_wiped, without.Earlier, without.NoVerify),
    RuleCase("digests", "digests alone", rules.changes_are_not_sent, without.NoSends, without.NothingSent),
    RuleCase("load-first", "R7, load first", rules.member_restarts_quickly, SimMember, without.UpAtOnce),
    RuleCase("pauses", "R9, pauses", rules.member_stands_still, SimMember, without.PausesUnseen),
    RuleCase("second-load", "second load", rules.member_sleeps_for_long, SimMember, without.NoSecondLoad),
    RuleCase("grace", "R2, timers restart", rules.owner_dies, SimMember, without.NoGrace),
    RuleCase("tombstones", "tombstones", rules.sides_go_apart, SimMember, without.NoTombstones),
    RuleCase(
        "coverage",
        "take-over, only of complete data",
        rules.owner_dies_while_it_sends,
        without.RoundsInTurn,
        without.NoCoverage,
    ),
    RuleCase("merge", "take-over, owner merges", rules.sides_go_apart, SimMember, without.NoMerge),
    RuleCase(
        "copies-prove-no-life",
        "a copy does not prove life",
        rules.copy_waits_in_a_paused_member,
        without_10_to_17.LateCallsCount,
        without_10_to_17.LateCopiesProveLife,
    ),
    RuleCase(
        "ages",
        "R13, ages count from the time of sending",
        rules.copy_waits_in_a_paused_member,
        without_10_to_17.LateCallsCount,
        without_10_to_17.LateUndated,
    ),
    RuleCase(
        "owner-fetches",
        "take-over, owner fetches",
        rules.copies_come_late,
        without_10_to_17.LateWholeCalls,
        without_10_to_17.LateMergedCopies,
    ),
    RuleCase(
        "version-check",
        "R10, versions from outside",
        rules_10_to_17.versions_are_forged,
        SimMember,
        without_10_to_17.VersionsUnchecked,
    ),
    RuleCase(
        "claims-beside",
        "R11, claims outside the engine",
        rules_10_to_17.owner_of_many_dies,
        SimMember,
        without_10_to_17.ClaimsInTheTick,
        seeds=1,  # it takes long
    ),
    RuleCase(
        "one-view",
        "R12, one view",
        rules_10_to_17.two_members_hear_a_third_alone,
        SimMember,
        without_10_to_17.DirectContactOnly,
    ),
    RuleCase("relay", "R12, relay", rules_10_to_17.owner_cannot_be_called, SimMember, without_10_to_17.NoRelay),
    RuleCase("cut-off", "R12, who is cut off", rules_10_to_17.member_is_alone, SimMember, without_10_to_17.JudgesAlone),
    RuleCase("deadlines", "R13, deadlines", rules_10_to_17.calls_come_late, SimMember, without_10_to_17.LateCallsCount),
    RuleCase(
        "waiting-calls",
        "R13, calls that waited",
        rules_10_to_17.calls_wait_in_a_paused_member,
        SimMember,
        without_10_to_17.WaitingCallsCount,
    ),
    RuleCase(
        "clients-word",
        "R14, only clients' writes count",
        rules_10_to_17.check_follows_a_cut,
        SimMember,
        without_10_to_17.ChecksSpeak,
    ),
    RuleCase(
        "repeated-words",
        "R14, a repeated write counts",
        rules_of_words.words_are_repeated,
        SimMember,
        without_10_to_17.RepeatsUnsaid,
    ),
    RuleCase(
        "late-removals",
        "R15, a removal soon after a write",
        rules_of_words.removals_are_late,
        SimMember,
        without_10_to_17.VagueRemovals,
    ),
    RuleCase(
        "traces",
        "R15, a removal leaves a trace",
        rules_10_to_17.removal_is_unheard_of,
        SimMember,
        without_10_to_17.NoTraces,
    ),
    RuleCase(
        "expiry-guesses",
        "R15, an expiry yields to a beat",
        rules_10_to_17.silence_is_on_one_side,
        without_10_to_17.JudgesAlone,
        without_10_to_17.ExpiryWins,
    ),
    RuleCase(
        "rejoin",
        "R16, the smaller side waits",
        rules_10_to_17.members_restart_apart,
        SimMember,
        without_10_to_17.JoinsUnseen,
    ),
    RuleCase(
        "own-will",
        "R9, refused beats are not silence",
        rules_10_to_17.members_refuse_beats,
        SimMember,
        without_10_to_17.RefusalsAreSilence,
    ),
    RuleCase(
        "exchange",
        "R16, only ownership waits",
        rules_of_words.sides_speak,
        SimMember,
        without_10_to_17.ExchangesLater,
    ),
    RuleCase(
        "hand-over",
        "R17, clients are handed over",
        rules_10_to_17.clients_are_sent_away,
        ConnectedMember,
        without_10_to_17.RemovesItsClients,
    ),
    RuleCase(
        "own-cluster",
        "L1, a link to the own cluster is refused",
        rules_of_links.link_leads_to_itself,
        LinkedMember,
        without_links.FollowsItself,
        seeds=2,
    ),
    RuleCase(
        "local-only",
        "L1, only local instances leave",
        rules_of_links.links_form_a_chain,
        LinkedMember,
        without_links.Echoes,
        seeds=2,
    ),
    RuleCase(
        "stale-marks",
        "L2, silence is marked",
        rules_of_links.link_is_cut,
        LinkedMember,
        without_links.Unmarked,
        seeds=2,
    ),
    RuleCase(
        "link-base",
        "L3, a delta names its base",
        rules_of_links.links_bring_too_much,
        LinkedMember,
        without_links.AnyDelta,
        seeds=2,
    ),
    RuleCase(
        "young-members",
        "L4, a young member removes nothing",
        rules_of_links.other_cluster_restarts_empty,
        LinkedMember,
        without_links.TrustsTheYoung,
        seeds=2,
    ),
    RuleCase(
        "doubt",
        "L5, a loss of most is doubted",
        rules_of_links.clients_return_with_the_link,
        LinkedMember,
        without_links.BelievesLosses,
        seeds=2,
    ),
    RuleCase(
        "last-ones",
        "L6, the last ones stay",
        rules_of_links.link_is_silent_for_too_long,
        LinkedMember,
        without_links.EmptiesServices,
        seeds=2,
    ),
    RuleCase(
        "asked-for",
        "L7, only the chosen services",
        rules_of_links.other_cluster_lies,
        without_links.Lies,
        without_links.TakesAll,
        seeds=2,
    ),
    RuleCase(
        "one-state",
        "L8, one state for all",
        rules_of_links.carrying_member_ends,
        LinkedMember,
        without_links.KeepsToItself,
        seeds=2,
    ),
    RuleCase(
        "later-states",
        "L8, the later statement wins",
        rules_of_links.later_states_meet_higher_ones,
        LinkedMember,
        without_links.KeepsHigher,
        seeds=2,
    ),
    RuleCase(
        "compare-again",
        "L8, an owner compares after a merge",
        rules_of_links.silent_owner_ends,
        LinkedMember,
        without_links.ComparesNotAgain,
    ),
    RuleCase(
        "late-lines",
        "L8, lines that waited are refused",
        rules_of_links.lines_wait_in_a_paused_member,
        LinkedMember,
        without_links.TakesLateLines,
    ),
    RuleCase(
        "two-carriers",
        "L9, two members register each service",
        rules_of_links.carrying_members_restart,
        LinkedMember,
        without_links.CarriesAlone,
        seeds=2,
    ),
    RuleCase(
        "register-first",
        "L9, register first, then end",
        rules_of_links.carrying_members_restart,
        LinkedMember,
        without_links.EndsFirst,
        seeds=2,
    ),
)
