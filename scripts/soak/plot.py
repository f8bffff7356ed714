"""The plot of a soak: memory and descriptors of each member over time, with restarts and kills."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from scripts.soak.slopes import Sample

matplotlib.use("svg")
from matplotlib import pyplot

PANELS = (("rss_mb", "memory (MB)"), ("descriptors", "descriptors"))


def draw(samples: Sequence[Sample], events: Sequence[tuple[float, str]], title: str, file: Path) -> None:
    """Write the plot as SVG."""
    # Text stays text, and the file contains no date.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 9})
    figure, panels = pyplot.subplots(len(PANELS), 1, sharex=True, figsize=(9, 5.5), layout="constrained")
    members = sorted({one.member for one in samples})
    for axes, (name, label) in zip(panels, PANELS, strict=True):
        for number, member in enumerate(members):
            own = [one for one in samples if one.member == member]
            for run in sorted({one.run for one in own}):
                points = [(one.at_s / 60, getattr(one, name)) for one in own if one.run == run]
                axes.plot(*zip(*points, strict=True), color=f"C{number}", label=member if not run else None, lw=1.2)
        for at_s, event in events:
            if not event.endswith("is back"):
                axes.axvline(at_s / 60, color="0.6", ls="--" if "killed" in event else ":", lw=0.8)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    panels[0].set_title(title, fontsize=9)
    panels[0].legend(loc="lower right", fontsize=8)
    panels[-1].set_xlabel("minutes; dotted: a member restarts, dashed: a member is killed")
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
