"""Loading a call's parameters by a schema, and the schemas that several endpoints share.

Every refusal names its field. Other schemas are in the modules of their endpoints.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, validate

from app.http.input.fields import (
    FILLED,
    PRESENT,
    Double,
    Int,
    LenientFlag,
    Needed,
    Number,
    Parameter,
    StrictFlag,
    Text,
    Trimmed,
    Whole,
)
from app.http.input.forms import DOM, GROUP_NAME, NAMESPACE_ID, SERVICE_NAME, Parameters
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, PORT_MAX
from app.naming.model.nacos_errors import InvalidParam

_SCHEMAS_KEPT = 256
TEXT_TYPE = "String"
PAGE_NO_TEXT, PAGE_SIZE_TEXT = "The number of the page.", "The entries of a page."
SERVICE_NAME_TEXT = "The service's name, alone or as `group@@name`."
CLUSTER_NAME_TEXT = "The cluster within the service."
GROUP_NAME_TEXT = "The group of the service; a name with `@@` brings its own."
DOM_TEXT = "The old name of the service, without its group."
"""The descriptions of parameters that many calls have."""
BESIDE_SERVICE_NAME: tuple[Parameter[str], ...] = (
    Trimmed(GROUP_NAME, GROUP_NAME_TEXT, DEFAULT_GROUP),
    Trimmed(DOM, DOM_TEXT, deprecated=True),
)
"""The parameters that are read with each service's name: see ``Parameters.service_name``."""
PORT_RANGE = validate.Range(0, PORT_MAX, error=f"it should be a number from 0 to {PORT_MAX}")
PAGE_NO = Number("pageNo", PAGE_NO_TEXT, 1, validate=validate.Range(min=1, error="it should be 1 or more"))
DESCENDING = StrictFlag("descending", "The greatest first.", False)


def page_size(usual: int, most: int) -> Number:
    """Return the parameter for the entries of a page, ``usual`` without one, at most ``most``."""
    in_range = validate.Range(1, most, error=f"it should be from 1 to {most}")
    return Number("pageSize", PAGE_SIZE_TEXT, usual, validate=in_range)


def one_of(choices: Iterable[str]) -> validate.OneOf:
    """Return the check that a text is one of these."""
    known = [*choices]
    return validate.OneOf(known, error=f"it should be one of {', '.join(known)}")


def order_by(columns: Iterable[str], usual: str) -> Trimmed:
    """Return the parameter for the column that sorts a page."""
    known = [*columns]
    text = f"The column to sort by: {', '.join(f'`{one}`' for one in known)}."
    return Trimmed("orderBy", text, usual, validate=one_of(known))


@lru_cache(_SCHEMAS_KEPT)
def _made(schema: type[Schema]) -> Schema:
    return schema()


def load(schema: type[Schema], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loaded values by the names of the schema's fields.

    Raises:
        InvalidParam: with the complaint about the first field that has one.
    """
    try:
        return dict(_made(schema).load(values))
    except ValidationError as error:
        name, complaint = next(iter(error.messages_dict.items()))
        text = complaint[0] if isinstance(complaint, list) else str(complaint)
        if isinstance(text, Whole):
            raise InvalidParam(str(text)) from None
        raise InvalidParam(f"Parameter '{name}' is illegal: {text}") from None


def needed_names(schema: type[Schema]) -> Iterator[str]:
    """Yield the names of the parameters that must be in a call."""
    for name, one in _made(schema).fields.items():
        if one.required:
            yield one.data_key or name


def keys_of(schema: type[Schema], *kinds: type[Parameter[Any]]) -> Iterator[str]:
    """Yield the names of the parameters of a schema; with ``kinds`` those of these kinds."""
    for one in _made(schema).fields.values():
        if isinstance(one, kinds or Parameter) and one.data_key:
            yield one.data_key


def java_type(schema: type[Schema], name: str) -> str:
    """Return Java's name for the type of a parameter, which Nacos names where one is missing."""
    one = next(one for one in _made(schema).fields.values() if one.data_key == name)
    types = {Int: "Integer", Double: "Double", LenientFlag: "Boolean"}
    return next((java for kind, java in types.items() if isinstance(one, kind)), TEXT_TYPE)


def load_parameters(schema: type[Schema], parameters: Parameters) -> dict[str, Any]:
    """Return the loaded values of a call's parameters; ``serviceName`` is read as the full name, with its group.

    Raises:
        InvalidParam: with the complaint about the first field that has one.
    """
    values = dict(parameters.items())
    if (service := parameters.service_name()) is not None:
        values[SERVICE_NAME] = service
    return load(schema, values)


class CallSchema(Schema):
    """Ignores the values that it has no field for; the complaint about the first field in its order is the answer."""

    class Meta:
        unknown = EXCLUDE


class NamespaceSchema(CallSchema):
    namespace = Trimmed(NAMESPACE_ID, "The id of the namespace.", DEFAULT_NAMESPACE)


class ServiceSchema(NamespaceSchema):
    """GET and DELETE ``/service``, and all other calls about one service."""

    service = Text(SERVICE_NAME, SERVICE_NAME_TEXT, needs=PRESENT, example="orders")


class NeededServiceSchema(NamespaceSchema):
    """Calls about one service whose name may not be empty."""

    service = Needed(SERVICE_NAME, SERVICE_NAME_TEXT, needs=FILLED, example="orders")


class LocalSchema(CallSchema):
    """Calls that ask all members, and with ``local`` this one alone."""

    local = StrictFlag("local", "Only the data of this member.", False)
