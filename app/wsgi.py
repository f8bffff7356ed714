"""What gunicorn loads: the WSGI application, and the node behind it, which starts in the worker."""

from app.config.settings import read_settings
from app.http.factory import create_app
from app.node import Node

node = Node(read_settings())
app = create_app(node.services)
