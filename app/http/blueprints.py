"""The route table in Flask: one blueprint for each module of endpoints."""

from collections.abc import Callable

from flask import Blueprint, Response

from app.http.api.answers import is_naming
from app.http.api.call import ROUTES, Route
from app.http.console import (
    admin_pages,
    change_pages,
    chart_pages,
    client_pages,
    event_pages,
    instance_pages,
    link_pages,
    member_pages,
    overview,
    page_resources,
    report_pages,
    search_pages,
    service_forms,
    service_pages,
    session_pages,
    user_pages,
)
from app.http.openapi import description
from app.http.v1 import (
    auth,
    beats,
    catalog,
    changes,
    cluster,
    cluster_clients,
    config,
    console,
    differences,
    digest,
    distro,
    drain,
    dump,
    events,
    explain,
    heal,
    health,
    health_sync,
    instance,
    instance_batch,
    legacy,
    links,
    metrics,
    namespaces,
    operator,
    search,
    service,
    service_search,
    subscribers,
    switches,
    targets,
    users,
    versions,
    writes,
)
from app.http.v2 import client as client_v2
from app.http.v2 import console as console_v2
from app.http.v2 import instance as instance_v2
from app.http.v2 import loader
from app.http.v2 import namespaces as namespaces_v2
from app.http.v2 import operator as operator_v2
from app.http.v2 import service as service_v2
from app.http.v3 import announcements, client_instance
from app.http.v3 import auth as auth_v3
from app.http.v3 import client as client_v3
from app.http.v3 import cluster as cluster_v3
from app.http.v3 import instance as instance_v3
from app.http.v3 import loader as loader_v3
from app.http.v3 import namespaces as namespaces_v3
from app.http.v3 import operator as operator_v3
from app.http.v3 import service as service_v3
from app.http.v3 import subscribers as subscribers_v3

MODULES = (
    instance,
    instance_batch,
    service,
    subscribers,
    health_sync,
    health,
    beats,
    catalog,
    search,
    service_search,
    changes,
    operator,
    switches,
    legacy,
    cluster,
    cluster_clients,
    loader,
    distro,
    writes,
    console,
    namespaces,
    auth,
    users,
    config,
    dump,
    differences,
    digest,
    links,
    explain,
    drain,
    events,
    heal,
    metrics,
    targets,
    console_v2,
    namespaces_v2,
    instance_v2,
    service_v2,
    operator_v2,
    client_v2,
    client_instance,
    instance_v3,
    service_v3,
    subscribers_v3,
    client_v3,
    operator_v3,
    cluster_v3,
    loader_v3,
    namespaces_v3,
    auth_v3,
    announcements,
    versions,
    overview,
    service_forms,
    service_pages,
    search_pages,
    change_pages,
    instance_pages,
    member_pages,
    link_pages,
    client_pages,
    admin_pages,
    user_pages,
    chart_pages,
    event_pages,
    report_pages,
    session_pages,
    page_resources,
    description,
)

View = Callable[..., Response]


def make_blueprints(context_path: str, make_view: Callable[[Route], View]) -> list[Blueprint]:
    """Return the blueprints under the context path. ``make_view`` makes Flask's view of a row."""
    blueprints = {
        module.__name__: Blueprint(
            module.__name__.partition(".http.")[2].replace(".", "_"),
            module.__name__,
            url_prefix=context_path or None,
        )
        for module in MODULES
    }
    root = Blueprint("root", __name__)
    for row in ROUTES:
        if row.at_root and not context_path:
            continue  # the same path under the context path, which is empty
        (root if row.at_root else blueprints[row.endpoint.__module__]).add_url_rule(
            row.path,
            endpoint=f"{row.method} {row.path}".replace(".", "_"),
            view_func=make_view(row),
            methods=[row.method],
            # Nacos 1.4.1 takes a slash at the end everywhere but under its naming paths, and answers OPTIONS nowhere.
            strict_slashes=is_naming(row.path),
            provide_automatic_options=False,
        )
    return [*blueprints.values(), root]
