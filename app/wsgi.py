"""The module that gunicorn loads: the WSGI application, and the node behind it, which starts in the worker."""

from app.config.settings import read_settings
from app.http.factory import create_app
from app.members.last_list import with_first_list
from app.node.node import Node

node = Node(with_first_list(read_settings()))
app = create_app(node.services)
