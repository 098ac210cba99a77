"""The way to a cluster: several files, every kind of credential, a server that does not answer."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.errors import CannotRun
from stacks import cluster_guard
from stacks.cluster_guard import Expected
from stacks.kube_api import Api, ApiError
from stacks.kubeconfig import connection, files
from tests.stacks.fake_cluster import UID, FakeCluster, kubeconfig, served
from tools.lab import certs


def test_several_files_are_one_and_the_first_wins(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, two = (kubeconfig(tmp_path / name, f"http://{name}") for name in ("a", "b"))
    assert connection("dev", [one, two]).server == "http://a"
    assert connection("dev", [tmp_path / "none", two]).server == "http://b"
    assert files({"KUBECONFIG": f"{one}:{two}"}) == [one, two]
    assert files({}) == [Path.home() / ".kube" / "config"]


def test_a_context_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="must have the context prod · found dev"):
        connection("prod", [kubeconfig(tmp_path, "http://a")])


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t0"}, "Bearer t0"),
        ({"tokenFile": "token", "token": "stale"}, "Bearer t1"),
        ({"username": "u", "password": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
        ({}, None),
    ],
)
def test_credentials_become_a_header(user: dict[str, str], header: str | None, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")
    found = connection("dev", [kubeconfig(tmp_path, "http://a", **user)])
    assert found.headers.get("Authorization") == header


def plugin(tmp_path: Path, text: str) -> dict[str, Any]:
    """A credential plugin beside the kubeconfig, named relative to it."""
    program = tmp_path / "plugin"
    program.write_text(f"#!{sys.executable}\n{text}\n")
    program.chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "args": ["get-token"],
            "env": [{"name": "REGION", "value": "r1"}],
        }
    }


def test_a_credential_plugin_is_asked(tmp_path: Path) -> None:
    answer = """\
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential" and sys.argv[1:] == ["get-token"]
print(json.dumps({"status": {"token": "t-" + os.environ["REGION"]}}))"""
    found = connection("dev", [kubeconfig(tmp_path, "http://a", **plugin(tmp_path, answer))])
    assert found.headers == {"Authorization": "Bearer t-r1"}


@pytest.mark.parametrize("text", ["raise SystemExit(1)", "print('no json')", "print('{}')"])
def test_a_plugin_that_fails_is_one_clear_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        CannotRun, match="context dev · must hold certificates and credentials that can be used"
    ):
        connection("dev", [kubeconfig(tmp_path, "http://a", **plugin(tmp_path, text))])


def test_certificates_by_path_and_by_value_are_read(tmp_path: Path) -> None:
    pki = certs.make(tmp_path / "pki")
    certificate, key = pki.admin
    by_path = {"client-certificate": "pki/admin.crt", "client-key": "pki/admin.key"}
    by_value = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    for user in (by_path, by_value):
        path = kubeconfig(tmp_path, "https://a", **user)
        config = yaml.safe_load(path.read_text())
        config["clusters"][0]["cluster"] |= {"certificate-authority": "pki/ca.crt", "tls-server-name": "api"}
        path.write_text(yaml.safe_dump(config))
        found = connection("dev", [path])
        assert found.tls is not None
        assert (found.tls.verify_mode, len(found.tls.get_ca_certs())) == (ssl.CERT_REQUIRED, 1)
        assert found.name == "api"


def test_a_broken_certificate_is_one_clear_error(tmp_path: Path) -> None:
    user = {"client-certificate-data": "!", "client-key-data": "!"}
    with pytest.raises(CannotRun, match="must hold certificates and credentials that can be used"):
        connection("dev", [kubeconfig(tmp_path, "https://a", **user)])


def test_requests_go_below_the_servers_path_over_one_connection(tmp_path: Path) -> None:
    cluster = FakeCluster(kinds={"v1": {"Node"}})
    with served(cluster, tmp_path) as path:
        way = connection("dev", [path])
        api = Api(type(way)(f"{way.server}/k8s/clusters/c-1", None))
        assert api.find("/api/v1") is None
        assert Api(way).find("/api/v1")["resources"][0]["kind"] == "Node"
    assert cluster.asked == [("GET", "/k8s/clusters/c-1/api/v1"), ("GET", "/api/v1")]


def test_a_server_that_does_not_answer_is_said_with_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(FakeCluster(), tmp_path) as path:
        server = connection("dev", [path]).server
    with pytest.raises(ApiError) as caught:
        Api(connection("dev", [path])).get("/api/v1")
    assert caught.value.status == 0
    with pytest.raises(CannotRun) as refused:
        cluster_guard.prove(Expected("prod", "dev", UID), [path])
    assert f"context dev · must answer · found Connection refused from {server}" in str(refused.value)
    assert "kubectl --context dev get namespace kube-system" in str(refused.value)


def test_what_is_no_answer_of_an_api_server_is_no_answer(tmp_path: Path) -> None:
    class Page(FakeCluster):
        def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
            return 502, "<html>bad gateway</html>"

    with served(Page(), tmp_path) as path, pytest.raises(ApiError) as caught:
        Api(connection("dev", [path])).get("/api/v1")
    assert (caught.value.status, json.loads(str(caught.value))) == (502, "<html>bad gateway</html>")
