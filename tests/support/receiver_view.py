"""The view by which a receiver decides, as a test writes it."""

from collections.abc import Callable

from distro.members.mapper import DistroMapper
from distro.model.ports import Component

NO_MEMBERS = DistroMapper("", ())


class StubView:
    """A reader of the view, the view, and what it has of mappers and members."""

    def __init__(
        self,
        mapper: DistroMapper = NO_MEMBERS,
        is_loading: Callable[[], bool] = lambda: False,
        is_known_writer: Callable[[str], bool] = lambda _writer: True,
        answers_itself: Callable[[str], bool] = lambda _writer: False,
    ) -> None:
        self.mapper, self._is_loading = mapper, is_loading
        self.is_known_writer, self.answers_itself = is_known_writer, answers_itself

    @property
    def view(self) -> "StubView":
        return self

    mappers = members = view

    @property
    def loading(self) -> bool:
        return self._is_loading()

    def of(self, _component: Component) -> DistroMapper:
        return self.mapper
