"""The runs of a request, and their output; see ``app.tools.command.simulate_command`` for the options."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from app.tools.simulation.tool.run_verdict import RunVerdict
from app.tools.simulation.tool.sim_request import MEANINGS, RULES, SimRequest
from app.tools.simulation.transcript.entry import Entry
from app.tools.simulation.transcript.lines import Printer
from app.tools.simulation.transcript.recorder import Recorder, Sink, recording
from app.tools.simulation.world import faults
from app.tools.simulation.world.invariants import Broken, Invariant

HELD, BROKEN, INTERRUPTED = 0, 1, 130


def simulate(request: SimRequest) -> int:
    """Run the seeds one after the other until an invariant is broken; return the exit code."""
    with _without_logs():
        if request.runs == 1:
            return _show(request, request.seed, quiet=request.quiet)
        for seed in range(request.seed, request.seed + request.runs):
            verdict = _run(request, seed, Recorder(_nothing))
            if verdict.interrupted:
                print(f"INTERRUPTED: seeds {request.seed} to {seed - 1} held, seed {seed} was not finished")
                return INTERRUPTED
            if verdict.broken is not None:
                return _show(request, seed, quiet=True)
        if request.json:
            print(f'{{"verdict":"held","seeds":[{request.seed},{request.seed + request.runs - 1}]}}')
        else:
            print(f"HELD: seeds {request.seed} to {request.seed + request.runs - 1}, {request.scenario}")
        return HELD


def _show(request: SimRequest, seed: int, *, quiet: bool) -> int:
    """Run one seed, with its transcript unless ``quiet``, and print the verdict."""
    sink: Sink = _nothing if quiet else Printer(sys.stdout.write, request.selection, json=request.json)
    recorder = Recorder(sink)
    verdict = _run(request, seed, recorder)
    command = request.command(seed)
    if request.json:
        print(verdict.json(command))
    else:
        print("\n".join(verdict.lines(recorder, command)))
    if verdict.broken is not None:
        return BROKEN
    return INTERRUPTED if verdict.interrupted else HELD


def _run(request: SimRequest, seed: int, recorder: Recorder) -> RunVerdict:
    try:
        with recording(recorder):
            world = request.run(seed)
    except Broken as error:
        return RunVerdict(seed, recorder.world, error)
    except KeyboardInterrupt:
        return RunVerdict(seed, recorder.world, interrupted=True)
    except Exception as error:  # the code of a member, or of the simulation itself
        where = "".join(traceback.format_exception(error)[-3:])
        return RunVerdict(seed, recorder.world, Broken(f"seed {seed} raised {where}", Invariant.CODE))
    return RunVerdict(seed, world)


def catalogue() -> str:
    """Return the names that options may have, of scenarios, rules and faults, and the invariants that are checked."""
    lines = ["scenarios (--scenario):"]
    lines += [f"    {name:20} {meaning}" for name, meaning in MEANINGS.items()]
    lines.append(
        "rules (--without; each is also a scenario that holds with the rule and breaks without it in some seeds):"
    )
    lines += [f"    {case.name:20} {case.rule} (seeds 0 to {case.seeds - 1})" for case in RULES.values()]
    lines.append("faults (--faults, comma-separated):")
    for name, kinds in faults.NAMED.items():
        said = " / ".join(dict.fromkeys(faults.meaning_of(fault) for fault, _ in kinds))
        lines.append(f"    {name:20} {said}")
    lines.append("invariants:")
    lines += [f"    {one.title}: {one.meaning}" for one in Invariant]
    return "\n".join(lines)


def _nothing(_entry: Entry) -> None:
    """Ignore an entry, for users who want only the verdict."""


@contextmanager
def _without_logs() -> Iterator[None]:
    """Keep members' log lines out of the transcript, which says the same and more."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
