"""The refusals of users' calls, with Nacos's texts."""

from app.naming.model.nacos_errors import NacosError, NoRight

UNKNOWN_USER, TOKEN_INVALID, TOKEN_EXPIRED = "unknown user!", "token invalid!", "token expired!"
NOT_PERMITTED = "authorization failed!"
"""Source of the four texts: Nacos 1.4.8 NacosAuthManager."""
AUTH_IS_OFF = "authentication is off at this server: nacos.core.auth.enabled is false, there are no users and no tokens"


class AccessDenied(NoRight):
    """The caller of a call names no user with the right to it. The text names the missing right."""


class TooManyLogins(NacosError):
    """A login was refused without checking the password. The caller may try again after ``retry_after_s``."""

    status = 429

    def __init__(self, text: str, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
