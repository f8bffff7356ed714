"""The version of this release, and the versions of Nacos that it reports to peers."""

__version__ = "0.1.0"
NACOS_VERSION = "1.4.8"
"""Reported to peers and consoles: Java members derive from it which calls they may make."""
MEMBER_AGENT = f"Nacos-Server:{NACOS_VERSION}"
"""The User-Agent of calls between members."""
NACOS_2_VERSION = "2.3.1"
"""The version reported to Nacos 2.x, which assumes that members below 2.0 do not know clients."""
