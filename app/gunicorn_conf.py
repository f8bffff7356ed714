"""gunicorn's configuration: one worker, never replaced without need, as the registry is that process's memory."""

import gc
import logging
import os
import signal
import sys
from typing import Any

from gunicorn.arbiter import Arbiter

import app
from app.config.addresses import join_address
from app.config.observability import JSON
from app.config.settings import REQUESTS_END_S, SettingError, Settings, read_settings
from app.languages.phrases import reason_for
from app.machine.process.open_files import CONNECTIONS_MAX, files_wanted, raise_limit
from app.machine.process.root_user import ROOT_WARNING, is_root

# Nothing that is loaded now is garbage, and searching it takes a tenth of a node's start. The worker collects garbage
# again once it serves.
gc.disable()


def _print_reason(error: SettingError) -> None:
    """Print why the node does not start: in the user's language at a terminal, in English into a log."""
    print(f"rollcall: {reason_for(sys.stderr, error)}", file=sys.stderr, flush=True)


def _settings() -> Settings:
    try:
        return read_settings()
    except SettingError as error:
        _print_reason(error)
        sys.exit(2)


_SETTINGS = _settings()
raise_limit(files_wanted(has_grpc=_SETTINGS.rpc is not None))
_HANGUP_IGNORED = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
"""True if the node was started by nohup; read now, as gunicorn sets its own handler later."""

bind = join_address(_SETTINGS.host, _SETTINGS.port)
backlog = 2048
proc_name = f"rollcall {bind}"

# Explicit, as gunicorn's default is the environment variable WEB_CONCURRENCY.
workers = 1
worker_class = f"{app.__name__}.http.server.worker.LoopWorker"
# For HTTP alone; the node bounds the connections of all its ports together, by the limit of open files.
worker_connections = CONNECTIONS_MAX
preload_app = False
max_requests = 0
# No limit: a process that was paused (SIGSTOP, a suspended machine) must not be killed when it resumes, as every
# registration is in its memory. The node handles pauses itself.
timeout = 0
graceful_timeout = _SETTINGS.stop_timeout_s
# A socket that takes commands such as "more workers" is a danger to a registry.
control_socket_disable = True
if os.access("/dev/shm", os.W_OK | os.X_OK):
    # The worker touches a file there each second; on a disk that could block it.
    worker_tmp_dir = "/dev/shm"

_FORMATTER = "json" if _SETTINGS.told.log_format == JSON else "line"
accesslog = None
errorlog = "-"
loglevel = "warning"
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": f"{app.__name__}.machine.process.log_lines.LineFormatter",
            "fmt": f"%(asctime)s %(levelname)s {_SETTINGS.port} %(name)s: %(message)s",
        },
        "json": {"()": f"{app.__name__}.machine.process.log_lines.JsonFormatter", "port": _SETTINGS.port},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": _FORMATTER, "stream": "ext://sys.stderr"}},
    "root": {"level": _SETTINGS.log_level, "handlers": ["stderr"]},
    "loggers": {
        "gunicorn.error": {"level": "WARNING", "handlers": [], "propagate": True},
        "urllib3": {"level": "ERROR"},
    },
}


def on_starting(server: Any) -> None:
    """Refuse more than one worker, and log the warnings about settings."""
    if server.cfg.workers != 1:
        print(
            f"rollcall: {server.cfg.workers} workers are not allowed: the registry is the memory of one process, and "
            "each worker would have another one. Run one worker per node; for more capacity add members.",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(2)
    _check_certificates()
    log = logging.getLogger(read_settings.__module__)
    if os.environ.get("WEB_CONCURRENCY", "1") != "1":
        log.warning(
            "WEB_CONCURRENCY is ignored: a node has one worker, because the registry is in the memory of that process"
        )
    if _SETTINGS.announce and is_root():
        log.warning("%s", ROOT_WARNING)
    if _SETTINGS.announce:
        for warning in _SETTINGS.warnings:
            log.warning("%s", warning)


def _check_certificates() -> None:
    """End with one line if a certificate cannot be used: in the worker, that would be a failure to load the code."""
    ports = (_SETTINGS.rpc.sdk, _SETTINGS.rpc.cluster) if _SETTINGS.rpc else ()
    if _SETTINGS.http_tls is None and not any(port.certificate for port in ports):
        return
    from app.machine.tls.node_tls import build_tls

    try:
        build_tls(_SETTINGS, lambda: 0)
    except SettingError as error:
        _print_reason(error)
        sys.exit(2)


def when_ready(server: Any) -> None:
    """Ignore the signals at which gunicorn would start a second worker or master next to the first.

    The master collects garbage from here on.
    """
    gc.enable()
    for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

    def stop(number: int, frame: Any) -> None:
        server.signal(signal.SIGTERM, frame)

    # Ctrl-C and a closed terminal end the node as SIGTERM does, with its changes sent; gunicorn's reload at SIGHUP
    # would put an empty registry in place of the full one.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if _HANGUP_IGNORED else stop)


def post_worker_init(worker: Any) -> None:
    """Start the node in the worker's process; gunicorn ends, too, if the node cannot start."""
    # The terminal sends these to every process; the master decides, and sends SIGTERM to the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Less than the master's time-out, or it would kill the worker before the node has stopped.
    worker.cfg.set("graceful_timeout", REQUESTS_END_S)
    # Imported after the fork: threads and locks would stay behind in the master.
    from app.wsgi import node

    def leave(number: int, frame: Any) -> None:
        # At once: the node stops later, when the requests under way have ended.
        node.retire()
        worker.handle_exit(number, frame)

    signal.signal(signal.SIGTERM, leave)
    try:
        node.start()
    except SettingError as error:
        _print_reason(error)
        sys.exit(Arbiter.APP_LOAD_ERROR)


def worker_exit(server: Any, worker: Any) -> None:
    """Stop the node before its process exits."""
    # gunicorn also calls this in the master, for a worker whose process has ended.
    if worker.pid == os.getpid():
        from app.wsgi import node

        node.stop()
