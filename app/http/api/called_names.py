"""The check of the service name that a call over HTTP brings: by the rule of its API."""

from app.commands.name_rules import check_v1_name, rule_of_nacos_2
from app.http.api.agents import is_peer
from app.http.api.call import Call, Services
from app.naming.model.service_names import check_service_name, is_usual_name

V1 = "/v1/"


def check_called_name(call: Call, services: Services, namespace: str, full_name: str) -> None:
    """Refuse the name of a service that the API of a call does not allow, unless it is checked already.

    A member has checked the calls it forwards.

    Raises:
        InvalidParam: the name is not allowed; with the text of the line of Nacos that the API follows.
    """
    if call.has_checked_name or (call.caller.is_member and is_peer(call.agent)):
        return
    names = services.settings.names
    if call.path.startswith(V1):
        check_v1_name(names, services.naming, namespace, full_name)
    elif not is_usual_name(full_name):
        check_service_name(full_name, rule_of_nacos_2(names))
