"""What the server counts and logs of each request, whichever way it is answered."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from app.http.api.call import Reply
from app.metrics.request_stats import NO_ROUTE
from tests.support.fake_node import FakeNode, make_settings
from tests.support.loops import run_loop
from tests.support.served import Served, served

BEAT = b"PUT /nacos/v1/ns/instance/beat?serviceName=a&ip=1.2.3.4&port=80 HTTP/1.1\r\nHost: h\r\nUser-Agent: x\r\n\r\n"
