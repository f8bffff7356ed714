"""A registry for a test: one node alone, on a free port, with a temporary folder."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.embedded_node import EmbeddedNode
from app.tools.embedded.errors_of_use import PortTaken, UseError
from app.tools.embedded.free_ports import FIRST_PORT, bind, bind_free
from app.tools.embedded.loop_thread import LoopThread
from app.tools.embedded.node_life import NodeLife
from app.tools.embedded.node_settings import VALUE, node_settings, texts_of

FOLDER_PREFIX = "rollcall-"
START_TRIES = 5
"""The number of starts on other free ports, if another process took a port between the check and its use."""


class EmbeddedRegistry(EmbeddedNode):
    """One node alone, which serves inside of ``with``, or from ``start`` to ``close``."""

    def __init__(
        self,
        *,
        settings: Mapping[str, VALUE] | None = None,
        port: int | None = None,
        data_dir: str | Path | None = None,
    ) -> None:
        """``settings``: by their names in docs/settings.md. ``data_dir``: a folder that stays, for durable data.

        Raises:
            UseError: a setting is unknown, or its value is not allowed.
        """
        super().__init__(NodeLife(ClockAhead()))
        self._texts = texts_of(settings)
        self._port = port
        self._data_dir = None if data_dir is None else Path(data_dir)
        node_settings(self._texts, port or FIRST_PORT, Path())  # a mistake is told where it was made
        self._kept = ExitStack()
        self._is_used = False

    def start(self) -> "EmbeddedRegistry":
        """Serve from now on, where ``with`` does not fit; call ``close`` at the end.

        Raises:
            UseError: it was started before, or its port or folder is in use.
        """
        if self._is_used:
            raise UseError("a Registry serves once: make another one, or call restart() inside of `with`")
        self._is_used = True
        for tries_left in reversed(range(START_TRIES if self._port is None else 1)):
            try:
                self._serve()
            except BaseException as error:
                self._kept.close()
                if not isinstance(error, PortTaken) or not tries_left:
                    raise
            else:
                break
        return self

    def _serve(self) -> None:
        folder = self._data_dir
        if folder is None:
            folder = Path(self._kept.enter_context(TemporaryDirectory(prefix=FOLDER_PREFIX)))
        loop = LoopThread()
        self._kept.callback(loop.stop)
        loop.start()
        opened = self._kept.enter_context(bind_free() if self._port is None else bind(self._port))
        self._life.begin(opened, node_settings(self._texts, opened.getsockname()[1], folder), loop)

    def close(self) -> None:
        """End, and remove temporary folders. May be called twice."""
        with self._kept:
            self.stop()

    def __enter__(self) -> "EmbeddedRegistry":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
