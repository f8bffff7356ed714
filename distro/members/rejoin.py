"""R16: the rule for which of two members that were apart waits before it carries keys again."""

from distro.model.types import PeerReport


def is_smaller_side(self_address: str, view: tuple[str, ...], report: PeerReport) -> bool:
    """Return whether this node, rather than the reporting peer, gets a rejoin delay after the two were apart.

    ``view``: this node's. A side that kept the other in its view was itself away, and gets the delay. If neither did,
    the smaller view gets it; of views of one size that without the first address. Both sides decide alike, from the
    same two views.
    """
    they_have_us, we_have_them = self_address in report.view, report.address in view
    if they_have_us != we_have_them:
        return we_have_them
    theirs = report.view or (report.address,)
    return (len(view), theirs) < (len(theirs), view)
