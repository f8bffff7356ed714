"""The settings of HTTPS: the files of gRPC unless others are named, and what cannot start."""

from pathlib import Path

import pytest

from app.config.settings import SettingError, read_settings

HTTP = "rollcall.http.tls"
SERVER, PEER = "nacos.remote.server.rpc.tls", "nacos.remote.peer.rpc.tls"


def pair(folder: Path, prefix: str, name: str) -> dict[str, str]:
    """Settings of a certificate and key, as empty files."""
    files = {f"{prefix}.certChainFile": folder / f"{name}.pem", f"{prefix}.certPrivateKey": folder / f"{name}-key.pem"}
    for file in files.values():
        file.touch()
    return {key: str(file) for key, file in files.items()}


def test_it_is_off_by_default_whatever_grpc_does(tmp_path: Path) -> None:
    settings = read_settings(pair(tmp_path, SERVER, "a"), {})
    assert settings.http_tls is None
    assert settings.scheme == "http"


def test_each_file_is_that_of_grpc_unless_named(tmp_path: Path) -> None:
    on = {f"{HTTP}.enabled": "true"}
    peer, server, http = (pair(tmp_path, of, of) for of in (PEER, SERVER, HTTP))
    trusted = {}
    for prefix in (PEER, HTTP):
        (tmp_path / f"{prefix}-trusted.pem").touch()
        trusted[prefix] = {f"{prefix}.trustCollectionChainPath": str(tmp_path / f"{prefix}-trusted.pem")}

    def chosen(*given: dict[str, str]) -> tuple[str, str, str]:
        tls = read_settings({name: value for one in (on, *given) for name, value in one.items()}, {}).http_tls
        assert tls is not None
        return tls.certificate.name, tls.private_key.name, tls.trusted.name

    assert chosen(peer) == (f"{PEER}.pem", f"{PEER}-key.pem", f"{PEER}.pem")
    assert chosen(peer, server) == (f"{SERVER}.pem", f"{SERVER}-key.pem", f"{SERVER}.pem")
    assert chosen(peer, server, http) == (f"{HTTP}.pem", f"{HTTP}-key.pem", f"{HTTP}.pem")
    assert chosen(server, trusted[PEER])[2] == f"{PEER}-trusted.pem"
    assert chosen(server, trusted[PEER], trusted[HTTP])[2] == f"{HTTP}-trusted.pem"


def test_what_cannot_be(tmp_path: Path) -> None:
    on, http = {f"{HTTP}.enabled": "true"}, pair(tmp_path, HTTP, "a")
    with pytest.raises(
        SettingError, match=r"enabled=true needs a certificate: set rollcall.http.tls.certChainFile and"
    ):
        read_settings(on, {})
    with pytest.raises(SettingError, match=r"certChainFile and rollcall.http.tls.certPrivateKey need each other"):
        read_settings(on | {f"{HTTP}.certChainFile": http[f"{HTTP}.certChainFile"]}, {})
    with pytest.raises(
        SettingError, match=r"trustCollectionChainPath=.*no \(command line\) is not allowed: a file that"
    ):
        read_settings(on | http | {f"{HTTP}.trustCollectionChainPath": str(tmp_path / "no")}, {})


def test_what_stays_unprotected_is_warned_of(tmp_path: Path) -> None:
    on = {f"{HTTP}.enabled": "true"} | pair(tmp_path, HTTP, "a")
    cluster = {"nacos.member.list": "127.0.0.1:8848,127.0.0.1:8858"}

    def warned(**more: str) -> list[str]:
        settings = read_settings(on | more, {})
        return [one for one in settings.warnings if "HTTPS" in one or "plain HTTP" in one]

    assert warned() == []
    [compatible] = warned(**{f"{HTTP}.compatibility": "true"})
    assert compatible.startswith("rollcall.http.tls.compatibility is true: this node accepts plain HTTP")
    [grpc] = warned(**cluster)
    assert grpc.endswith(f"set {PEER}.certChainFile and {PEER}.certPrivateKey")
    assert warned(**cluster, **pair(tmp_path, PEER, "b")) == []
    assert warned(**cluster, **{"rollcall.rpc.enabled": "false"}) == []


def test_on_it_is_https(tmp_path: Path) -> None:
    settings = read_settings({f"{HTTP}.enabled": "true"} | pair(tmp_path, HTTP, "a"), {})
    assert settings.scheme == "https"
    assert settings.http_tls is not None
    assert (settings.http_tls.mutual, settings.http_tls.compatible) == (False, False)
