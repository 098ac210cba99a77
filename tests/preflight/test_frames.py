"""Frames: whatever the bytes, in whatever pieces they arrive, and wherever the transfer is cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from checks.collect import build
from checks.frames import Reader
from checks.registry import Command

NONCE = "6b1f0c2d9e8a7b64"

outputs = st.lists(
    st.tuples(st.binary(max_size=200), st.binary(max_size=60), st.integers(0, 120)), min_size=1, max_size=8
)


def frames(results: list[tuple[bytes, bytes, int]], batch: int, junk: bytes = b"") -> bytes:
    """What the script would send, ``batch`` commands a frame."""
    sent = junk
    for start in range(0, len(results), batch):
        part = list(enumerate(results))[start : start + batch]
        files = [(f"{i}.{e}", data) for i, (o, s, _) in part for e, data in (("o", o), ("e", s)) if data]
        sent += f"\n@rw {NONCE} frame {len(part)} {len(files)}\n".encode()
        sent += b"".join(f"{i} done {rc} 10\n".encode() for i, (_, _, rc) in part)
        sent += b"".join(f"  {len(data)} {name}\n".encode() for name, data in files)
        if len(files) > 1:
            sent += b" 99 total\n"
        sent += b"".join(data for _, data in files)
        sent += f"\n@rw {NONCE} ok\n".encode()
    return sent + f"\n@rw {NONCE} end {len(results)}\n".encode()


def reader_for(results: list[tuple[bytes, bytes, int]]) -> Reader:
    return Reader(build([Command(f"k{i}", f"tool{i}") for i in range(len(results))], {}), NONCE)


def expected(results: list[tuple[bytes, bytes, int]], index: int) -> tuple[str, str, int]:
    out, err, rc = results[index]
    return out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), rc


@given(outputs, st.integers(1, 5), st.integers(1, 300), st.binary(max_size=50))
@settings(max_examples=150, deadline=None)
def test_round_trip(results: list[tuple[bytes, bytes, int]], batch: int, piece: int, junk: bytes) -> None:
    sent = frames(results, batch, junk)
    reader = reader_for(results)
    for start in range(0, len(sent), piece):
        reader.feed(sent[start : start + piece])
    assert reader.ended and reader.missing == 0
    for index, out in enumerate(reader.finish().values()):
        assert (out.stdout, out.stderr, out.rc) == expected(results, index)


@given(outputs, st.integers(1, 5), st.data())
@settings(max_examples=150, deadline=None)
def test_a_cut_loses_only_what_had_not_come(
    results: list[tuple[bytes, bytes, int]], batch: int, data: st.DataObject
) -> None:
    sent = frames(results, batch)
    cut = data.draw(st.integers(0, len(sent) - 1))
    reader = reader_for(results)
    reader.feed(sent[:cut])
    assert not reader.ended
    for index, out in enumerate(reader.finish().values()):
        if out.state == "incomplete":
            assert out.stdout == "" and out.rc is None
        else:
            assert (out.stdout, out.stderr, out.rc) == expected(results, index)


def test_a_file_that_grew_after_it_was_counted_spoils_only_its_frame() -> None:
    results = [(b"one", b"", 0), (b"two", b"", 0), (b"three", b"", 0)]
    sent = frames(results, 1).replace(b"two", b"two and more")
    reader = reader_for(results)
    reader.feed(sent)
    got = reader.finish()
    assert [out.state for out in got.values()] == ["done", "incomplete", "done"]
    assert not reader.ended


def test_an_end_that_counts_other_commands_is_no_end() -> None:
    reader = reader_for([(b"a", b"", 0), (b"b", b"", 0)])
    reader.feed(frames([(b"a", b"", 0)], 1))
    assert not reader.ended and reader.missing == 1


def test_an_end_is_believed_only_with_every_output() -> None:
    reader = reader_for([(b"a", b"", 0)])
    reader.feed(f"\n@rw {NONCE} end 1\n".encode())
    assert not reader.ended
