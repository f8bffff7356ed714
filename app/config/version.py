"""Which release this is, and which release of Nacos its answers are those of."""

__version__ = "0.1.0"
NACOS_VERSION = "1.4.8"
"""What peers and consoles are told: Java members read it to know which calls they may make."""
NACOS_2_VERSION = "2.3.1"
"""The same towards Nacos 2.x, which takes members below 2.0 for ones that do not know clients."""
