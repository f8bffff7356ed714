"""Keys of real Nacos, which a file that came from there may have, and misspelt ones among those that were given."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from app.config.settings_keys import snake
from app.languages.phrases import phrase

PREFIX, SNAKE_PREFIX = "nacos.", "NACOS_"
ALIKE_MIN = 0.85
"""How alike two names are of which one is taken for a misspelling: `nacos.core.auth.enable` is at 0.98."""
NACOS_KEYS = frozenset(
    {
        "nacos.ai.mcp.registry.enabled",
        "nacos.ai.mcp.registry.port",
        "nacos.cmdb.dumpTaskInterval",
        "nacos.cmdb.eventTaskInterval",
        "nacos.cmdb.labelTaskInterval",
        "nacos.cmdb.loadDataAtStart",
        "nacos.config.fuzzy.watch.max.pattern.count",
        "nacos.config.fuzzy.watch.max.pattern.match.config.count",
        "nacos.config.push.maxRetryTime",
        "nacos.console.contextPath",
        "nacos.console.port",
        "nacos.console.remote.server.context-path",
        "nacos.console.ui.enabled",
        "nacos.core.address-server.retry",
        "nacos.core.api.compatibility.admin.enabled",
        "nacos.core.api.compatibility.client.enabled",
        "nacos.core.api.compatibility.console.enabled",
        "nacos.core.auth.admin.enabled",
        "nacos.core.auth.caching.enabled",
        "nacos.core.auth.console.enabled",
        "nacos.core.auth.enable.userAgentAuthWhite",
        "nacos.core.auth.ldap.basedc",
        "nacos.core.auth.ldap.case.sensitive",
        "nacos.core.auth.ldap.filter.prefix",
        "nacos.core.auth.ldap.ignore.partial.result.exception",
        "nacos.core.auth.ldap.password",
        "nacos.core.auth.ldap.url",
        "nacos.core.auth.ldap.userdn",
        "nacos.core.auth.ldap.userDn",
        "nacos.core.auth.plugin.nacos.token.cache.enable",
        "nacos.core.auth.system.type",
        "nacos.core.config.plugin.fileformatcheck.enabled",
        "nacos.core.config.plugin.webhook.contentMaxCapacity",
        "nacos.core.config.plugin.webhook.enabled",
        "nacos.core.config.plugin.webhook.url",
        "nacos.core.config.plugin.whitelist.enabled",
        "nacos.core.config.plugin.whitelist.suffixs",
        "nacos.core.inet.auto-refresh",
        "nacos.core.member.meta.adweight",
        "nacos.core.member.meta.site",
        "nacos.core.member.meta.weight",
        "nacos.core.monitor.topn.count",
        "nacos.core.monitor.topn.enabled",
        "nacos.core.monitor.topn.internalMs",
        "nacos.core.notify.ring-buffer-size",
        "nacos.core.notify.share-buffer-size",
        "nacos.core.param.check.checker",
        "nacos.core.protocol.raft.data.cli_service_thread_num",
        "nacos.core.protocol.raft.data.core_thread_num",
        "nacos.core.protocol.raft.data.election_timeout_ms",
        "nacos.core.protocol.raft.data.read_index_type",
        "nacos.core.protocol.raft.data.rpc_request_timeout_ms",
        "nacos.core.protocol.raft.data.snapshot_interval_secs",
        "nacos.core.snowflake.worker-id",
        "nacos.core.support.upgrade.from.1x",
        "nacos.core.sys.basic.processors",
        "nacos.custom.environment.enabled",
        "nacos.deployment.type",
        "nacos.extension.ai.enabled",
        "nacos.function.mode",
        "nacos.http.timeout",
        "nacos.inetutils.ignored-interfaces",
        "nacos.inetutils.ip-address",
        "nacos.inetutils.prefer-hostname-over-ip",
        "nacos.inetutils.preferred-networks",
        "nacos.inetutils.use-only-site-local-interfaces",
        "nacos.istio.mcp.server.enabled",
        "nacos.k8s.sync.enabled",
        "nacos.k8s.sync.kubeConfig",
        "nacos.k8s.sync.outsideCluster",
        "nacos.local.ip",
        "nacos.member-change-event.queue.size",
        "nacos.metric.grpc.server.connection.enabled",
        "nacos.metric.grpc.server.connection.interval",
        "nacos.metric.grpc.server.executor.enabled",
        "nacos.metric.grpc.server.executor.interval",
        "nacos.mode",
        "nacos.naming.clean.empty-service.expired-time",
        "nacos.naming.clean.empty-service.interval",
        "nacos.naming.clean.expired-metadata.interval",
        "nacos.naming.data.warmup",
        "nacos.naming.distro.loadDataRetryDelayMillis",
        "nacos.naming.distro.syncRetryDelay",
        "nacos.naming.distro.taskDispatchPeriod",
        "nacos.naming.empty-service.clean.initial-delay-ms",
        "nacos.naming.empty-service.clean.period-time-ms",
        "nacos.naming.exposed.port",
        "nacos.naming.health.thread.num",
        "nacos.naming.push.pushTaskDelay",
        "nacos.naming.push.pushTaskRetryDelay",
        "nacos.naming.push.pushTaskTimeout",
        "nacos.naming.service.empty.auto-clean",
        "nacos.naming.use-new-raft.first",
        "nacos.plugin.control.manager.type",
        "nacos.plugin.control.rule.external.storage",
        "nacos.plugin.control.rule.local.basedir",
        "nacos.plugin.datasource.log.enabled",
        "nacos.preferHostnameOverIp",
        "nacos.remote.peer.rpc.tls.certPrivateKeyPassword",
        "nacos.remote.peer.rpc.tls.enableTls",
        "nacos.remote.server.grpc.maxinbound.message.size",
        "nacos.remote.server.rpc.protocol.negotiator.type",
        "nacos.remote.server.rpc.tls.certPrivateKeyPassword",
        "nacos.remote.server.rpc.tls.ciphers",
        "nacos.remote.server.rpc.tls.compatibility",
        "nacos.remote.server.rpc.tls.enableTls",
        "nacos.remote.server.rpc.tls.mutualAuth",
        "nacos.remote.server.rpc.tls.protocols",
        "nacos.remote.server.rpc.tls.provider",
        "nacos.remote.server.rpc.tls.sslContextRefresher",
        "nacos.remote.server.rpc.tls.trustAll",
        "nacos.remote.server.rpc.tls.trustCollectionChainPath",
        "nacos.security.ignore.urls",
        "nacos.server.contextPath",
        "nacos.server.grpc.port.offset",
        "nacos.server.main.port",
        "nacos.server.port",
        "nacos.use.cloud.namespace.parsing",
        "nacos.use.endpoint.parsing.rule",
        "nacos.version",
        "nacos.watch-file.max-dirs",
    }
)
"""Settings of Nacos 1.4, 2 and 3 that Rollcall does not have. Source: the constants in Nacos's own classes, and the
application.properties of its releases."""
_VARIABLES = frozenset(map(snake, NACOS_KEYS))
DOCKER_VARIABLES = {
    "NACOS_AUTH_ENABLE": "nacos.core.auth.enabled",
    "NACOS_AUTH_TOKEN": "nacos.core.auth.plugin.nacos.token.secret.key",
    "NACOS_AUTH_TOKEN_EXPIRE_SECONDS": "nacos.core.auth.plugin.nacos.token.expire.seconds",
    "NACOS_AUTH_IDENTITY_KEY": "nacos.core.auth.server.identity.key",
    "NACOS_AUTH_IDENTITY_VALUE": "nacos.core.auth.server.identity.value",
    "NACOS_SERVERS": "nacos.member.list",
    "NACOS_SERVER_PORT": "server.port",
    "NACOS_APPLICATION_PORT": "server.port",
}
"""Variables of Nacos's Docker image, and the keys that mean the same here."""
SERVICE_LINK = "tcp://"
"""The begin of values that Kubernetes sets for the services of a namespace: one may be named nacos."""


def ignored_keys(given: Mapping[str, str]) -> list[str]:
    """Return the given settings of Nacos that Rollcall does not have, sorted."""
    return sorted(name for name in given if _is_of_nacos(name))


def _is_of_nacos(name: str) -> bool:
    return name in NACOS_KEYS or name in _VARIABLES


def misspelt_keys(given: Mapping[str, str], ours: Collection[str]) -> Iterator[str]:
    """Yield a warning for each name that is neither ours nor Nacos's, and like one of them.

    A name that is like no other may be a plugin's or a later release's.

    ``ours``: our names that begin as Nacos's do; for an environment in both forms.
    """
    for name in sorted(given):
        if name in ours or _is_of_nacos(name) or not name.startswith((PREFIX, SNAKE_PREFIX)):
            continue
        known = sorted({*ours, *(NACOS_KEYS if name.startswith(PREFIX) else _VARIABLES)})
        if name.startswith(SNAKE_PREFIX) and given[name].startswith(SERVICE_LINK):
            continue
        if name in DOCKER_VARIABLES:
            yield phrase(
                "%(name)s of Nacos's Docker image is ignored; set %(key)s", name=name, key=DOCKER_VARIABLES[name]
            )
        elif near := difflib.get_close_matches(name, known, n=1, cutoff=ALIKE_MIN):
            if near[0] in ours:
                text = phrase(
                    "%(name)s is not a setting and is ignored; did you mean %(near)s?", name=name, near=near[0]
                )
            else:
                text = phrase(
                    "%(name)s is not a setting and is ignored; did you mean %(near)s, which is a setting of Nacos that "
                    "Rollcall also ignores?",
                    name=name,
                    near=near[0],
                )
            yield text
