"""Reading entries: malformed ones, a user's own, and the cache of what was read."""

from __future__ import annotations

import json
import os
import time
from importlib.resources import files
from pathlib import Path

import pytest

from rackwright.catalog import VARIABLE, Catalog, load_catalog, read_catalog
from rackwright.errors import CannotRun, InputErrors

OURS = files("rackwright") / "catalog"
CABINET = (
    "id: {id}\nkind: cabinet\nname: Ours\nunits: {{value: 42, unit: '1', source: our hall, verified: true}}\n"
    "rating: {{value: {rating}, unit: W, source: our hall, verified: true}}\n"
    "feeds: {{value: 2, unit: '1', source: our hall, verified: true}}\n"
    "feed: {{value: 8000, unit: W, source: our hall, verified: true}}\ncooling: air\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.delenv(VARIABLE, raising=False)
    return place


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def broken(tmp_path: Path, text: str) -> str:
    write(tmp_path, "hardware/x.yaml", text)
    with pytest.raises(InputErrors) as caught:
        read_catalog(tmp_path)
    return str(caught.value)


def test_an_entry_of_unknown_kind(tmp_path: Path) -> None:
    message = broken(tmp_path, "id: x\nkind: acelerator\nname: X\n")
    kinds = "accelerator, cabinet, calibration, engine, machine, model, partitioning, platform, prices, "
    kinds += "provisioner, scenario, switch"
    assert f'must have a kind of {kinds} (did you mean "accelerator"?) · found "acelerator"' in message


def test_all_that_is_wrong_with_an_entry_at_once(tmp_path: Path) -> None:
    text = (
        "id: X Y\nkind: machine\nname: X\nidle: {value: 1, unit: kW, source: somewhere, verified: true}\n"
        "full_load: {value: -1, unit: W, source: somewhere, verified: true}\n"
        "cores: {value: 8, unit: '1', source: somewhere, verified: true, date: yesterday}\n"
        "threads: {value: 8, unit: '1', source: somewhere, verified: true, low: 9}\n"
    )
    message = broken(tmp_path, text)
    assert "idle · must be in W" in message
    assert "full_load · must not be negative" in message
    assert 'date · must be a date such as "2026"' in message
    assert "threads · must lie between its low and its high" in message
    assert "catalog/hardware/x.yaml:1 id · " in message


def test_a_price_without_currency(tmp_path: Path) -> None:
    text = (
        "id: x\nkind: prices\nname: X\ncountry: XX\n"
        "machines: {m: {value: 5, unit: '', source: here, verified: true}}\n"
        "electricity: {value: 0.8, unit: kWh, source: here, verified: true}\n"
    )
    message = broken(tmp_path, text)
    assert "electricity · must be in one of CNY/kWh, USD/kWh, EUR/kWh: a price says its currency" in message
    assert "machines.m.unit" in message


def test_a_machine_needs_a_price_or_a_reason(tmp_path: Path) -> None:
    card = (OURS / "hardware/h200-sxm.yaml").read_text(encoding="utf-8")
    machine = (OURS / "hardware/hgx-h200-8.yaml").read_text(encoding="utf-8")
    write(tmp_path, "hardware/a.yaml", card)
    message = broken(tmp_path, machine)
    assert "must have a price, or say why not" in message
    write(tmp_path, "hardware/x.yaml", machine + "no_price: quoted by project\n")
    assert read_catalog(tmp_path).machines["hgx-h200-8"].no_price == "quoted by project"


def test_names_must_be_unique_and_known(tmp_path: Path) -> None:
    write(tmp_path, "cabinets/a.yaml", CABINET.format(id="one", rating=8000) + "aliases: [Ours]\n")
    write(tmp_path, "cabinets/b.yaml", CABINET.format(id="two", rating=8000) + "aliases: [OURS]\n")
    with pytest.raises(InputErrors, match=r'must share no name with another entry · found "ours" of one too'):
        read_catalog(tmp_path)
    write(tmp_path, "cabinets/b.yaml", CABINET.format(id="one", rating=8000))
    with pytest.raises(InputErrors, match=r'must have an id of its own · found "one" twice'):
        read_catalog(tmp_path)


def test_an_empty_catalog_is_a_catalog(tmp_path: Path) -> None:
    assert isinstance(read_catalog(tmp_path), Catalog)


def test_own_entries_stand_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "own/hall-7.yaml", CABINET.format(id="hall-7", rating=12000))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    catalog = load_catalog()
    assert catalog.cabinet("Hall-7").rating.value == 12000
    assert "rack-42u-10kw" in catalog.cabinets


def test_an_own_entry_replaces_ours_only_where_it_says_so(tmp_path: Path) -> None:
    own = write(tmp_path, "own/cabinets/r.yaml", CABINET.format(id="rack-42u-10kw", rating=9000))
    with pytest.raises(InputErrors, match="or set replaces: true in your own entry"):
        read_catalog(OURS, tmp_path / "own")
    own.write_text(own.read_text() + "replaces: true\n")
    assert read_catalog(OURS, tmp_path / "own").cabinets["rack-42u-10kw"].rating.value == 9000


def test_a_directory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(CannotRun, match="must be a directory of catalog entries"):
        load_catalog()


def test_odd_files_among_own_entries(tmp_path: Path) -> None:
    (tmp_path / "own" / "sub.yaml").mkdir(parents=True)
    write(tmp_path, "own/README.md", "not an entry")
    assert read_catalog(OURS, tmp_path / "own").cabinets
    (tmp_path / "own" / "bytes.yaml").write_bytes(b"id: \xff\n")
    with pytest.raises(InputErrors, match="must be a text · found bytes that are not UTF-8"):
        read_catalog(OURS, tmp_path / "own")
    (tmp_path / "own" / "bytes.yaml").write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(InputErrors, match="must be one entry · found 1,048,577 bytes"):
        read_catalog(OURS, tmp_path / "own")


def kept(cache: Path) -> Path:
    return next(cache.glob("rackwright/catalog-*.json"))


def test_what_was_read_is_kept_and_gives_the_same(cache: Path) -> None:
    first = read_catalog(OURS)
    assert kept(cache).stat().st_mode & 0o777 == 0o600
    started = time.process_time()
    second = read_catalog(OURS)
    spent = time.process_time() - started
    assert second.kinds == first.kinds
    assert second.digests == first.digests
    assert spent < 0.4, f"{spent:.2f} CPU-seconds for all of {len(first.digests)} entries"


def test_a_damaged_or_foreign_cache_is_left_aside(cache: Path, tmp_path: Path) -> None:
    write(tmp_path, "c/cabinets/a.yaml", CABINET.format(id="one", rating=8000))
    read_catalog(tmp_path / "c")
    place = kept(cache)
    whole = place.read_bytes()
    head, _, body = whole.partition(b"\n")
    for bad in (b"", whole[:-20], head + b"\n" + body.replace(b"8000", b"9000"), b"\xff\n" + body):
        place.write_bytes(bad)
        assert read_catalog(tmp_path / "c").cabinets["one"].rating.value == 8000
    assert place.read_bytes() == whole, "written anew"
    place.write_bytes(whole.replace(b"8000", b"9000"))
    place.chmod(0o666)
    assert read_catalog(tmp_path / "c").cabinets["one"].rating.value == 8000


def test_a_changed_entry_is_read_again(cache: Path, tmp_path: Path) -> None:
    write(tmp_path, "c/cabinets/a.yaml", CABINET.format(id="one", rating=8000))
    before = read_catalog(tmp_path / "c")
    write(tmp_path, "c/cabinets/a.yaml", CABINET.format(id="one", rating=9000))
    after = read_catalog(tmp_path / "c")
    assert (before.cabinets["one"].rating.value, after.cabinets["one"].rating.value) == (8000, 9000)
    assert before.digests != after.digests
    assert json.loads(kept(cache).read_bytes().partition(b"\n")[2])[0]["rating"]["value"] == 9000


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_cache_that_cannot_be_written_costs_time_only(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(mode=0o500)
    write(tmp_path, "c/cabinets/a.yaml", CABINET.format(id="one", rating=8000))
    assert read_catalog(tmp_path / "c").cabinets


def test_without_a_home_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    write(tmp_path, "c/cabinets/a.yaml", CABINET.format(id="one", rating=8000))
    assert read_catalog(tmp_path / "c").cabinets


def test_a_shipped_scenario_is_known_by_its_file_name() -> None:
    folder = OURS / "scenarios"
    names = {item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")}
    assert names == set(load_catalog().scenarios) and "chat" in names
