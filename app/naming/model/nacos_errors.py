"""Refusals of the domain. Each becomes an answer of its status in one place of each door."""


class NacosError(Exception):
    """A refusal with the HTTP status that real Nacos declares for it."""

    status = 500

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class InvalidParam(NacosError):
    """The caller's input is wrong; the text names the field."""

    status = 400


class ClientGone(NacosError):
    """The client whose operation it is has no connection here, or has it no more: it is to connect anew."""

    status = 400


class WeightRefused(InvalidParam):
    """The weight is none, or out of range."""


class InstanceMissing(InvalidParam):
    """What is to be changed is not there, or its whole service is not."""


class NoRight(NacosError):
    status = 403


class NotFound(NacosError):
    status = 404


class Unavailable(NacosError):
    """This node cannot answer now; the caller may ask another one."""

    status = 503


class StorageError(NacosError):
    """The disk did not keep a durable record, so it was not changed."""

    status = 507
