"""What counts as a secret, and what stays legible."""

from __future__ import annotations

import pytest

from rackwright.secrets import HIDDEN, is_secret, is_secret_key, is_secret_variable, masked, redacted

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUv"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("vllm serve --api-key swordfish --port 8000", f"vllm serve --api-key {HIDDEN} --port 8000"),
        ("--api-key=swordfish", f"--api-key={HIDDEN}"),
        (f"curl -H {TOKEN}", f"curl -H {HIDDEN}"),
        ("--api-key=$(VLLM_API_KEY)", "--api-key=$(VLLM_API_KEY)"),
        ("--api-key", "--api-key"),
        ("--max-num-batched-tokens=8192", "--max-num-batched-tokens=8192"),
    ],
)
def test_a_command_line_loses_its_secrets_alone(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert redacted({"args": [text]}) == {"args": [shown]}


def test_values_are_hidden_by_name_form_and_variable() -> None:
    tree = {
        "password": "swordfish",
        "note": f"use {TOKEN}",
        "env": [{"name": "TLS_KEY", "value": "swordfish"}, {"name": "HF_TOKEN", "value": "$(HUB)"}],
        "words": ["--api-key", "swordfish"],
        "image": "vllm",
    }
    assert redacted(tree) == {
        "password": HIDDEN,
        "note": f"use {HIDDEN}",
        "env": [{"name": "TLS_KEY", "value": HIDDEN}, {"name": "HF_TOKEN", "value": "$(HUB)"}],
        "words": ["--api-key", HIDDEN],
        "image": "vllm",
    }


def test_names_are_judged_by_where_they_stand() -> None:
    """A chart names a Secret under ``existingSecret``; a variable that ends in KEY is a key."""
    assert is_secret_key("adminPassword")
    assert not is_secret_key("existingSecret")
    assert is_secret_variable("TLS_KEY")
    assert not is_secret("price_per_token")
    assert is_secret("registry-password")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redfish://root:calvin@10.1.0.1/redfish", "redfish://a value that is not shown@10.1.0.1/redfish"),
        ("postgres://$(USER):$(PASSWORD)@db/x", "postgres://$(USER):$(PASSWORD)@db/x"),
        ("https://host:8443/a@b", "https://host:8443/a@b"),
    ],
)
def test_a_password_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert masked(text) == shown
