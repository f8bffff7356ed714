"""The first member list of a node whose list comes from an address server or a name, and the node's name in it."""

import logging
from dataclasses import replace

from app.config.addresses import own_address
from app.config.settings import SettingError, Settings
from app.members.last_list import LastList
from app.members.member_sources import NoListError, source_maker

LOG = logging.getLogger(__name__)


def with_first_list(settings: Settings) -> Settings:
    """Return the settings with the members from the address server or the name, else with those of an earlier run.

    Without either the settings stay as they are, and the node waits for a first list. May block for seconds.
    """
    if settings.standalone or not settings.lookup.is_polled:
        return settings
    lookup = settings.lookup
    source = source_maker(lookup, settings.cluster_conf, settings.self_address)(lookup.kind)
    try:
        found = source.read() or ()
    except NoListError as error:
        found = LastList(settings.data_dir).read()
        use = f"the last one is used: {', '.join(found)}" if found else "this node waits for one"
        LOG.warning("no member list: %s; %s", error, use)
    finally:
        source.close()
    own = settings.self_address if lookup.own_host else own_address(found, settings.host, settings.port)
    members = found if own in found else (*found, own)
    try:
        settings.check_members(members)
    except SettingError as error:
        LOG.error("the member list cannot be used: %s", error)
        members = (own,)
    return replace(settings, members=members, self_address=own)
