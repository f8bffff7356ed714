"""Requests for configurations, answered as Nacos answers them for a configuration that does not exist."""

from collections.abc import Mapping
from typing import Any

from app.auth.access_rules import LOGGED_IN
from app.machine.process.config_call_log import ConfigCallLog
from app.peers.payload import FAILED, encode, failure, request_body, success
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute

CONFIG_NOT_FOUND = 300
"""The code that tells SDKs that no such configuration exists. Source: Nacos 2.2.3 ConfigQueryResponse."""
NO_PUBLICATIONS = "this is a naming server: configurations are neither published nor removed here"

NO_WATCHES = "this is a naming server: it has no configurations to watch"
WATCH, WATCH_ANSWER = "ConfigFuzzyWatchRequest", "ConfigFuzzyWatchResponse"
WATCH_BYTES_MAX = 524_288
"""The longest watch: an SDK that saw configurations at another server names them."""


class AbsentConfigHandlers:
    """One method for each type of request. Used on the loop's thread."""

    def __init__(self, calls: ConfigCallLog) -> None:
        self._calls = calls

    def routes(self) -> Mapping[str, GrpcRoute]:
        """Return the handlers by type of request."""
        return {
            "ConfigQueryRequest": GrpcRoute(self.query, "ConfigQueryResponse", LOGGED_IN),
            "ConfigBatchListenRequest": GrpcRoute(self.listen, "ConfigChangeBatchListenResponse", LOGGED_IN),
            "ConfigPublishRequest": GrpcRoute(self.publish, "ConfigPublishResponse", LOGGED_IN),
            "ConfigRemoveRequest": GrpcRoute(self.remove, "ConfigRemoveResponse", LOGGED_IN),
            WATCH: GrpcRoute(self.watch, WATCH_ANSWER, LOGGED_IN, bytes_max=WATCH_BYTES_MAX),
        }

    def refusals(self) -> Mapping[str, GrpcRoute]:
        """Return the handlers of a node that refuses to answer for configurations.

        An SDK that reads the ability ``fuzzyWatch`` takes it for configurations, too, and repeats without a pause a
        watch that is answered as an unknown request.
        """
        return {WATCH: GrpcRoute(self.refuse_watch, WATCH_ANSWER, LOGGED_IN, bytes_max=WATCH_BYTES_MAX)}

    async def query(self, _asked: GrpcRequest) -> Mapping[str, Any]:
        """Answer that no such configuration exists."""
        self._calls.absent()
        return failure(CONFIG_NOT_FOUND, "config data not exist")

    async def listen(self, _asked: GrpcRequest) -> Mapping[str, Any]:
        """Answer that nothing has changed."""
        self._calls.absent()
        return success(changedConfigs=[])

    async def publish(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Refuse to keep a configuration."""
        return self._refuse(request, "ConfigPublishRequest")

    async def remove(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Refuse to remove a configuration."""
        return self._refuse(request, "ConfigRemoveRequest")

    async def watch(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Send a client that begins a watch its list, which is empty.

        Source: Nacos 3.0.3 ConfigFuzzyWatchRequestHandler and ConfigFuzzyWatchSyncRequest.
        """
        self._calls.absent()
        fields = request.fields
        if fields.flag("initializing", False) and fields.text("watchType") == "WATCH":
            body = request_body(
                requestId=f"{WATCH}-{request.connection.id}",
                module="config",
                syncType="FINISH_FUZZY_WATCH_INIT_NOTIFY",
                groupKeyPattern=fields.text("groupKeyPattern"),
                contexts=[],
                totalBatch=1,
                currentBatch=1,
            )
            request.connection.offer(encode("ConfigFuzzyWatchSyncRequest", body))
        return success()

    async def refuse_watch(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Refuse to watch configurations."""
        self._calls.refused(request.connection.remote_ip, WATCH)
        return failure(FAILED, NO_WATCHES)

    def _refuse(self, request: GrpcRequest, kind: str) -> Mapping[str, Any]:
        self._calls.refused(request.connection.remote_ip, kind)
        return failure(FAILED, NO_PUBLICATIONS)
