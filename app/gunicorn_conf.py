"""gunicorn's configuration: one worker that is never replaced without need, as the registry is its memory."""

import logging
import os
import signal
import sys
from typing import Any

from gunicorn.arbiter import Arbiter

from app.config.addresses import join_address
from app.config.settings import REQUESTS_END_S, SettingError, Settings, read_settings
from app.process.open_files import connections_max, frontends, raise_limit


def _settings() -> Settings:
    try:
        return read_settings()
    except SettingError as error:
        print(f"rollcall: {error}", file=sys.stderr, flush=True)
        sys.exit(2)


_SETTINGS = _settings()
_FRONTENDS = frontends(_SETTINGS)
raise_limit(_FRONTENDS)
_HANGUP_IGNORED = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
"""Whether we were started by nohup; gunicorn sets a handler of its own later."""

bind = join_address(_SETTINGS.host, _SETTINGS.port)
backlog = 2048
proc_name = f"rollcall {bind}"

# One, said here so that the environment's WEB_CONCURRENCY, gunicorn's own default, does not decide.
workers = 1
worker_class = "app.http.server.worker.LoopWorker"
worker_connections = connections_max(_FRONTENDS)
preload_app = False
max_requests = 0
# No limit: a process that was paused (SIGSTOP, a suspended machine) must not be killed for its silence on waking,
# as every registration is in its memory. The node itself judges pauses.
timeout = 0
graceful_timeout = _SETTINGS.stop_timeout_s
# A socket that takes commands, such as more workers, is nothing that a registry wants.
control_socket_disable = True
if os.access("/dev/shm", os.W_OK | os.X_OK):
    # The worker touches a file there each second; on a disk that could block it.
    worker_tmp_dir = "/dev/shm"

accesslog = None
errorlog = "-"
loglevel = "warning"
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": f"%(asctime)s %(levelname)s {_SETTINGS.port} %(name)s: %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "root": {"level": _SETTINGS.log_level, "handlers": ["stderr"]},
    "loggers": {
        "gunicorn.error": {"level": "WARNING", "handlers": [], "propagate": True},
        "urllib3": {"level": "ERROR"},
    },
}


def on_starting(server: Any) -> None:
    """Refuse a second worker, and say what the operator should know."""
    if server.cfg.workers != 1:
        print(
            f"rollcall: {server.cfg.workers} workers are not allowed: the registry is the memory of one process, and "
            "each worker would have another one. Run one worker per node; for more capacity add members.",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(2)
    log = logging.getLogger("app.config.settings")
    if os.environ.get("WEB_CONCURRENCY", "1") != "1":
        log.warning("WEB_CONCURRENCY is not followed: a node has one worker, as the registry is that process's memory")
    if _SETTINGS.announce:
        for warning in _SETTINGS.warnings:
            log.warning("%s", warning)


def when_ready(server: Any) -> None:
    """Take back the signals by which gunicorn would start a second worker or master beside the first."""
    for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

    def stop(number: int, frame: Any) -> None:
        server.signal(signal.SIGTERM, frame)

    # Ctrl-C and a closed terminal end the node as SIGTERM does, with its changes sent; gunicorn's reload at SIGHUP
    # would put an empty registry in place of the full one.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if _HANGUP_IGNORED else stop)


def post_worker_init(worker: Any) -> None:
    """Start the node, in the process that serves it; a node that cannot start ends gunicorn too."""
    # The terminal sends these to every process; the master decides, and tells us by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Less than the master gives us, or it would kill us before the node has stopped.
    worker.cfg.set("graceful_timeout", REQUESTS_END_S)
    # Not before the fork: threads and locks would stay behind in the master.
    from app.wsgi import leave_node, start_node

    def leave(number: int, frame: Any) -> None:
        # At once: requests under way are waited for before the node stops.
        leave_node()
        worker.handle_exit(number, frame)

    signal.signal(signal.SIGTERM, leave)
    try:
        start_node()
    except SettingError as error:
        print(f"rollcall: {error}", file=sys.stderr, flush=True)
        sys.exit(Arbiter.APP_LOAD_ERROR)


def worker_exit(server: Any, worker: Any) -> None:
    """Stop the node when its process ends in order."""
    # gunicorn calls this in the master too, for a worker that it finds gone.
    if worker.pid == os.getpid():
        from app.wsgi import stop_node

        stop_node()
