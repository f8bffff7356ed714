"""What gunicorn loads: the WSGI application, and the node behind it, which starts in the worker."""

from app.config.settings import read_settings
from app.http.factory import create_app
from app.node import Node

node = Node(read_settings())
app = create_app(node.services)


def start_node() -> None:
    """Start the node's threads, after the fork."""
    node.start()


def leave_node() -> None:
    """Refuse writes from now on, and tell the other members."""
    node.leave()


def stop_node() -> None:
    """Send what is due and end the node's threads."""
    node.stop()
