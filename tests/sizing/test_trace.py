"""Request logs: what is read of them by hand counts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rackwright.errors import InputErrors
from rackwright.sizing.load import demand
from rackwright.sizing.trace import read_trace, users_section
from rackwright.workload import Users

from .build import workload


def written(tmp_path: Path, *lines: str, head: str = "timestamp,input_tokens,output_tokens") -> Path:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join((head, *lines)) + "\n", encoding="utf-8")
    return path


def two_days(tmp_path: Path) -> Path:
    """60 requests an hour, 240 from 20:00 to 21:00, over two days; 100 tokens in, 50 out."""
    lines = []
    for hour in range(48):
        count = 240 if hour % 24 == 20 else 60
        lines += [f"{1_767_225_600 + hour * 3600 + i * (3600 // count)},100,50" for i in range(count)]
    return written(tmp_path, *lines)


def test_two_days_by_hand(tmp_path: Path) -> None:
    trace = read_trace(two_days(tmp_path))
    assert trace.requests == 2 * (23 * 60 + 240)
    assert trace.per_day == 1620
    assert trace.hourly[20] == 240
    assert trace.peak == 240 / 3600
    assert (trace.given.mean, trace.made.p95) == (100, 50)


def test_the_section_gives_the_load_of_the_trace(tmp_path: Path) -> None:
    """1,620 requests a day of 81 users: 20 a user; the busiest hour has 240: 1/15 a second, × 1.5."""
    section = yaml.safe_load(users_section(read_trace(two_days(tmp_path)), 81))["users"]
    users = Users.model_validate(section)
    assert users.sessions_per_day == 20
    assert users.peak_share == pytest.approx(240 / 1620)
    asked = demand(workload().model_copy(update={"users": users}))
    assert asked.requests_per_s == pytest.approx(240 / 3600 * 1.5)


@pytest.mark.parametrize(
    "head", ["TIMESTAMP,ContextTokens,GeneratedTokens", "arrival_time,prompt_tokens,completion_tokens"]
)
def test_columns_of_public_traces(tmp_path: Path, head: str) -> None:
    path = written(tmp_path, "2026-05-01 00:00:00.1,10,2", "2026-05-01T02:00:00+00:00,30,4", head=head)
    trace = read_trace(path, gaps=True)
    assert trace.given.mean == 20
    assert trace.days == pytest.approx(2 / 24, rel=1e-3)


def test_milliseconds(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "1767225600000,1,1", "1767232800000,1,1"), gaps=True)
    assert trace.days == pytest.approx(2 / 24)


def test_all_bad_lines_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "0,10,5", "noon,10,5", "7200,-4,5", "7300,10,many", "7400,10")
    with pytest.raises(InputErrors) as error:
        read_trace(path)
    assert [p.where.rpartition(":")[2] for p in error.value.problems] == ["3", "4", "5", "6"]
    assert "'-4'" in error.value.problems[1].found


def test_a_gap_is_refused_unless_it_is_real(tmp_path: Path) -> None:
    lines = [f"{hour * 3600 + i * 36},10,5" for hour in (0, 1, 3) for i in range(100)]
    path = written(tmp_path, *lines)
    with pytest.raises(InputErrors, match=r"no request in the hour from 1970-01-01T02:00\+00:00"):
        read_trace(path)
    assert read_trace(path, gaps=True).requests == 300


def test_quiet_nights_are_no_gap(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, "0,10,5", "18000,10,5")).requests == 2


def test_missing_columns_and_too_short(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="column of output tokens"):
        read_trace(written(tmp_path, "0,1", head="timestamp,input"))
    with pytest.raises(InputErrors, match="at least an hour"):
        read_trace(written(tmp_path, "0,1,1", "10,1,1"))
