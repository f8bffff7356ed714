"""The rules for service names in the calls of clients, by the API and the settings."""

from app.config.name_settings import NameSettings
from app.naming.model.service_names import NameRule, check_service_name
from app.naming.service import NamingService


def rule_of_nacos_2(settings: NameSettings) -> NameRule:
    """Return the rule for gRPC, HTTP v2 and v3."""
    return NameRule.NACOS_2 if settings.checks_2 else NameRule.STORED


def check_v1_name(settings: NameSettings, naming: NamingService, namespace: str, full_name: str) -> None:
    """Refuse a name that a write of HTTP v1 may not use.

    As in Nacos 1.4, the characters count for a service that this member does not know: the write would create it. So v1
    changes and removes the instances of services that came over the other APIs.

    Raises:
        InvalidParam: as ``check_service_name``.
    """
    if settings.v1_as_2:
        check_service_name(full_name, rule_of_nacos_2(settings))
    elif not naming.revision(namespace, full_name):
        check_service_name(full_name, NameRule.NACOS_1)
