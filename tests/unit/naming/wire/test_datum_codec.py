"""The JSON of an instance list, between members of our kind."""

import orjson
import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, Metadata, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.types import Datum, Version

KEY = datum_key("public", "DEFAULT_GROUP@@orders")
VERSION = Version(1, 2, "127.0.0.1:8848~1")


@pytest.mark.parametrize("metadata", [None, {}, {"a": "1", "b": None}])
def test_metadata_is_the_same_on_every_member(metadata: Metadata | None) -> None:
    instance = Instance("10.0.0.1", 8080, service_name="DEFAULT_GROUP@@orders", metadata=metadata)
    codec = InstanceListCodec(lambda: 1_700_000_000_000)
    datum = Datum(KEY, VERSION, InstanceList({instance.key: StoredInstance(instance, VERSION, 0)}, {}))
    decoded = codec.decode(KEY, orjson.loads(codec.encode(datum, 0, versioned=True)), 0)
    assert [stored.instance for stored in decoded.value.stored.values()] == [instance]
