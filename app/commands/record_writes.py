"""The steps of commands that change durable records: the keys that each writes, and the change itself."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from app.auth.access_control import AccessControl
from app.auth.passwords import Passwords
from app.auth.refusals import AUTH_IS_OFF, NOT_PERMITTED, AccessDenied
from app.auth.users import Users
from app.commands import record_commands as to
from app.commands.record_commands import read_or_raise
from app.commands.write_caller import WriteCaller
from app.config.link_settings import Called, LinkSource
from app.config.settings_keys import SettingError
from app.metrics.audit_trail import AuditTrail
from app.naming.model import keys
from app.naming.model.nacos_errors import InvalidParam, NoRight
from app.naming.model.override import Override
from app.naming.records.durable_service import DurableService, Namespace
from app.naming.records.record_keys import (
    SWITCHES_KEY,
    link_key,
    namespace_key,
    override_key,
    service_meta_key,
    user_key,
)
from app.naming.registry.remaining_instances import Remaining
from app.naming.service import NamingService


class RecordStep(NamedTuple):
    """The step of one kind of command."""

    keys: Callable[[Any], tuple[str, ...]]
    """Return the keys of the records that a command changes, which share an owner; none if it is for this member."""
    write: Callable[[Any, WriteCaller], object]
    """Change the records. Return False if the command asks for nothing that may be done; or the instances that remain
    in service.
    """


class RecordWrites:
    """Changes records at the member that owns them. Blocks for the disk; whether this is the owner is asked before."""

    def __init__(
        self,
        naming: NamingService,
        durable: DurableService,
        users: Users,
        access: AccessControl,
        audit: AuditTrail,
        links: LinkSource,
    ) -> None:
        """``links``: the settings of links at this member, without the fields that calls set."""
        self._naming = naming
        self._durable = durable
        self._users = users
        self._access = access
        self._audit = audit
        self._links = links

    def steps(self) -> Mapping[type, RecordStep]:
        """Return the step of each kind of command."""
        durable, users = self._durable, self._users

        def of_service(write: Callable[[Any, WriteCaller], object]) -> RecordStep:
            return RecordStep(lambda one: (service_meta_key(one.namespace, one.service),), write)

        def of_namespace(write: Callable[[Namespace], object]) -> RecordStep:
            return RecordStep(lambda one: (namespace_key(one.namespace.id),), _plain(write))

        def of_switch(write: Callable[..., object]) -> RecordStep:
            return RecordStep(
                lambda one: () if one.here_only else (SWITCHES_KEY,), lambda one, _: write(**one._asdict())
            )

        def of_user(write: Callable[[Any, WriteCaller], object]) -> RecordStep:
            return RecordStep(lambda _: (user_key("any"),), write)  # all users have one owner

        return {
            to.CreateService: of_service(self._create_service),
            to.UpdateService: of_service(self._update_service),
            to.RemoveService: RecordStep(lambda one: durable.keys_of_service(*one), _plain(durable.remove_service)),
            to.UpdateCluster: of_service(self._update_cluster),
            to.ChangeInstance: RecordStep(_override_keys, self._change_instance),
            to.ChangeInstances: RecordStep(_override_keys_of_all, self._change_instances),
            to.CreateNamespace: of_namespace(durable.create_namespace),
            to.UpdateNamespace: of_namespace(durable.update_namespace),
            to.RemoveNamespace: RecordStep(lambda one: (namespace_key(one.id),), _plain(durable.remove_namespace)),
            to.UpdateSwitch: of_switch(durable.update_switch),
            to.UpdateSwitches: of_switch(durable.update_switches),
            to.ChangeLink: RecordStep(lambda one: (link_key(one.name),), self._change_link),
            to.ResetLink: RecordStep(lambda one: (link_key(one.name),), _plain(durable.links.reset)),
            to.CreateUser: of_user(lambda one, _: users.create(one.username, self._hash(one.password))),
            to.CreateFirstAdmin: of_user(self._create_first_admin),
            to.SetPassword: of_user(self._set_password),
            to.ChangePassword: of_user(self._change_password),
            to.EndTokens: of_user(self._end_tokens),
            to.EndToken: of_user(self._end_token),
            to.RemoveUser: of_user(_plain(users.delete)),
            to.AddRole: of_user(_plain(users.add_role)),
            to.RemoveRole: of_user(_plain(users.remove_role)),
            to.AddPermission: of_user(_plain(users.add_permission)),
            to.RemovePermission: of_user(_plain(users.remove_permission)),
        }

    # --- services and namespaces -------------------------------------------------------------------

    def _create_service(self, command: to.CreateService, _: WriteCaller) -> None:
        namespace, service, meta = command
        if self._naming.service_view(namespace, service) is not None:
            raise to.ServiceExists(f"specified service already exists, serviceName : {service}")
        self._durable.create_service(namespace, service, read_or_raise(meta))

    def _update_service(self, command: to.UpdateService, _: WriteCaller) -> None:
        namespace, service, threshold, metadata, selector = command
        if self._naming.service_view(namespace, service) is None:
            raise InvalidParam(f"service {service} not found!")
        self._durable.update_service(namespace, service, threshold, metadata, read_or_raise(selector))

    def _update_cluster(self, command: to.UpdateCluster, _: WriteCaller) -> None:
        namespace, service, cluster, config = command
        if self._naming.service_view(namespace, service) is None:
            raise InvalidParam(f"service not found:{service}")
        self._durable.update_cluster(namespace, service, cluster, read_or_raise(config))

    def _change_instance(self, command: to.ChangeInstance, _: WriteCaller) -> None:
        namespace, service, ip, port, cluster, weight, enabled, metadata, whole = command
        keys.check_address(namespace, service, cluster, ip, port)
        where = namespace, service, keys.instance_key(ip, port, cluster)
        if whole:
            self._durable.overrides.replace(*where, Override(weight, enabled, metadata or keys.NO_METADATA))
        else:
            self._durable.overrides.change(*where, weight, enabled, metadata)

    def _change_instances(self, command: to.ChangeInstances, _: WriteCaller) -> Remaining:
        namespace, service, names, weight, enabled, metadata, if_enough = command
        for one in names:
            keys.check_address(namespace, service, one.cluster, one.ip, one.port)
        wanted = Override(weight, enabled, metadata or keys.NO_METADATA)
        return self._durable.overrides.change_all(
            namespace, service, map(_instance_key, names), wanted, if_enough=if_enough
        )

    # --- links -------------------------------------------------------------------------------------

    def _change_link(self, command: to.ChangeLink, _: WriteCaller) -> None:
        name, fields = command

        def check(called: Called) -> None:
            try:
                self._links.check_called(name, called)
            except SettingError as error:
                raise InvalidParam(f"Parameter 'settings' is illegal: {error}") from None

        self._durable.links.change(name, fields, check)

    # --- users -------------------------------------------------------------------------------------

    def _create_first_admin(self, command: to.CreateFirstAdmin, _: WriteCaller) -> None:
        self._users.create_first_admin(command.username, self._hash(command.password))
        if self._access.setup is not None:
            self._access.setup.end()

    def _set_password(self, command: to.SetPassword, caller: WriteCaller) -> None:
        self._check_own_or_admin(command.username, caller)
        self._users.set_password(command.username, self._hash(command.password))

    def _change_password(self, command: to.ChangePassword, caller: WriteCaller) -> None:
        user, address = caller.actor.user, caller.actor.address
        try:
            self._access.log_in(user, command.old, address, caller.login_wait)
        except AccessDenied:
            raise to.WrongPassword("Old password is invalid") from None
        self._users.set_password(user, self._hash(command.new))

    def _end_tokens(self, command: to.EndTokens, caller: WriteCaller) -> None:
        self._check_own_or_admin(command.username, caller)
        self._users.end_tokens(command.username)

    def _end_token(self, command: to.EndToken, caller: WriteCaller) -> None:
        session = self._access.session(command.token)
        if command.username != session.user:
            raise to.NotOwnUser(NOT_PERMITTED)
        self._users.end_token(session.user, session.token_id, session.end_ms // 1_000)
        self._audit.on_access("logout", "", caller.actor)

    def _check_own_or_admin(self, name: str, caller: WriteCaller) -> None:
        user = caller.actor.user
        if user != name and not self._access.table.rights(user).is_admin:
            raise to.NotOwnUser(NOT_PERMITTED)

    def _hash(self, password: str) -> str:
        passwords: Passwords | None = self._access.passwords
        if passwords is None:
            raise NoRight(AUTH_IS_OFF)
        return passwords.hash(password)


def _override_keys(one: to.ChangeInstance) -> tuple[str, ...]:
    return (override_key(one.namespace, one.service, keys.instance_key(one.ip, one.port, one.cluster)),)


def _override_keys_of_all(one: to.ChangeInstances) -> tuple[str, ...]:
    return tuple(override_key(one.namespace, one.service, _instance_key(name)) for name in one.names)


def _instance_key(one: to.InstanceName) -> str:
    return keys.instance_key(one.ip, one.port, one.cluster)


def _plain(write: Callable[..., object]) -> Callable[[Any, WriteCaller], object]:
    """Return the step of a method that takes the values of the command."""
    return lambda one, _: write(*one)
