"""Refusals of the domain. Each frontend turns them into answers, in one place."""


class NacosError(Exception):
    """A refusal with the HTTP status that real Nacos declares for it."""

    status = 500

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class InvalidParam(NacosError):
    """An argument is not allowed. The text names it."""

    status = 400


class ClientGone(NacosError):
    """The calling client has no connection here any more, and should connect again."""

    status = 400


class WeightRefused(InvalidParam):
    """The weight is not a number, or out of range."""


class InstanceMissing(InvalidParam):
    """The instance to be changed, or its service, does not exist."""


class ServiceMissing(InvalidParam):
    """The service of the instance to be changed does not exist, over HTTP v2 and v3."""


class NoRight(NacosError):
    """The caller has no right to this operation."""

    status = 403


class NotFound(NacosError):
    """The requested object does not exist."""

    status = 404


class TooFewRemain(NacosError):
    """A change would leave clients with too few healthy instances, and its caller asked to be stopped then."""

    status = 409


class LimitReached(NacosError):
    """A write would make this node hold more than a limit allows. The text names the limit's setting and value."""

    status = 413


class TooManyRequests(NacosError):
    """The caller should try again after ``retry_after_s``, and not at another server at once."""

    status = 429

    def __init__(self, text: str, retry_after_s: float) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class Unavailable(NacosError):
    """This node cannot answer now. The caller may try another."""

    status = 503


class NotExecuted(Unavailable):
    """This member does not serve now, or the call comes too late: nothing was done, another member may be asked."""


class StorageError(NacosError):
    """A durable record could not be written to disk, and was not changed."""

    status = 507
