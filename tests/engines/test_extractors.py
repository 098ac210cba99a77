"""Reading declarations out of C++, Rust and Python source that nobody runs here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "engine_matrix"
MODULES = ("release", "source_ast", "source_text", "parser_dump", "sglang_dump", "extract_llama_cpp",
           "extract_sglang", "extract_tgi")  # fmt: skip

CPP = r"""
static std::initializer_list<enum llama_example> picture_examples = {
    LLAMA_EXAMPLE_MTMD, LLAMA_EXAMPLE_SERVER };
    add_opt(common_arg(
        {"-h", "--help"}, "print, usage (and exit)",
        [](common_params & params) { params.usage = true; /* ) */ }
    ));
    add_opt(common_arg(
        {"-c", "--ctx-size"}, "N", string_format("size (default: %d, \"auto\")", params.n_ctx),
        [](common_params & params, int value) { params.n_ctx = value; }
    ).set_env("LLAMA_ARG_CTX_SIZE"));
    add_opt(common_arg(
        {"--cache"}, {"--no-cache"}, "whether",
        [](common_params & params, bool value) { params.cache = value; }
    ).set_env("LLAMA_ARG_CACHE"));
    add_opt(common_arg(
        {"--pair"}, "A", "B", "two",
        [](common_params & params, const std::string & a, const std::string & b) { f(a, b); }
    ).set_examples({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg(
        {"--picture"}, "FILE", "one", [](common_params & params, const std::string & v) { f(v); }
    ).set_examples(picture_examples));
    add_opt(common_arg(
        {"-p", "--prompt"}, "P", "text", [](common_params & params, const std::string & v) { f(v); }
    ).set_excludes({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg(
        {"--only-cli"}, "c", [](common_params & params) { f(); }
    ).set_examples({LLAMA_EXAMPLE_CLI}));
    add_opt(common_arg(
        {"--gone"}, "N", "the argument has been removed. use --cache",
        [](common_params & params, int value) { arg_removed("use --cache"); }
    ));
"""

RUST = """
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Best, of all
    FooBar,
    #[clap(name = "bfloat16")]
    BFloat16,
}

struct Args {
    /// A model (with a bracket
    #[clap(default_value = "org/m", long, env)]
    model_id: String,
    #[clap(default_value = "3000", long, short, env)]
    port: u16,
    #[clap(long, env)]
    sharded: Option<bool>,
    #[clap(long, env, value_enum)]
    quant_kind: Option<Kind>,
    #[clap(long, env)]
    trust_remote_code: bool,
}
"""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    import extract_llama_cpp
    import extract_sglang
    import extract_tgi
    import release
    import sglang_dump
    import source_ast
    import source_text

    yield argparse.Namespace(
        llama=extract_llama_cpp,
        sglang=extract_sglang,
        tgi=extract_tgi,
        release=release,
        dump=sglang_dump,
        ast=source_ast,
        text=source_text,
    )
    for name in MODULES:
        sys.modules.pop(name, None)


def test_commas_in_text_and_brackets_cut_nothing(tools: Any) -> None:
    text = r'{"a", "b,c"}, f(1, g("x)")), /* , */ [](int & x) { return "}"; }'
    assert tools.text.arguments(text) == [
        '{"a", "b,c"}',
        'f(1, g("x)"))',
        '[](int & x) { return "}"; }',
    ]
    with pytest.raises(ValueError, match="nothing closes"):
        tools.text.closing('("a)"', 0)


def test_llama_cpp(tools: Any) -> None:
    flags, removed, variables = tools.llama.read_flags(CPP)
    by_name = {flag["name"]: flag for flag in flags}
    assert sorted(by_name) == ["--cache", "--ctx-size", "--help", "--pair", "--picture"]
    assert (by_name["--ctx-size"]["type"], by_name["--ctx-size"]["aliases"]) == ("int", ["-c"])
    assert (by_name["--cache"]["takes_value"], by_name["--cache"]["negatives"]) == ("boolean", ["--no-cache"])
    assert by_name["--pair"]["nargs"] == 2
    assert by_name["--help"]["takes_value"] == "boolean"
    assert removed == {"--gone": "use --cache"}
    assert variables == ["LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_CACHE", "LLAMA_ARG_NO_CACHE"]


def test_llama_cpp_with_a_list_that_is_not_there(tools: Any) -> None:
    with pytest.raises(tools.release.ExtractionError, match="other_examples"):
        tools.llama.read_flags(CPP.replace("set_examples(picture_examples)", "set_examples(other_examples)"))


def test_llama_cpp_without_metrics_is_no_success(tools: Any, tmp_path: Path) -> None:
    (tmp_path / "tools" / "server").mkdir(parents=True)
    with pytest.raises(tools.release.ExtractionError, match="no metrics"):
        tools.llama.read_metrics(tmp_path)


def test_tgi(tools: Any) -> None:
    by_name = {flag["name"]: flag for flag in tools.tgi.read_flags(RUST)}
    assert sorted(by_name) == [
        "--help", "--model-id", "--port", "--quant-kind", "--sharded", "--trust-remote-code", "--version",
    ]  # fmt: skip
    assert (by_name["--port"]["type"], by_name["--port"]["aliases"]) == ("int", ["-p"])
    assert by_name["--sharded"]["choices"] == ["false", "true"]
    assert by_name["--quant-kind"]["choices"] == ["bfloat16", "foo-bar"]
    assert by_name["--trust-remote-code"]["takes_value"] == "boolean"
    assert by_name["--model-id"]["default"] == "org/m"


def test_sglang_variables(tools: Any, tmp_path: Path) -> None:
    root = tmp_path / "sglang" / "srt"
    root.mkdir(parents=True)
    for folder in (root, root.parent):
        (folder / "__init__.py").write_text("")
    (root / "environ.py").write_text(
        "class Envs:\n    SGLANG_ON = EnvBool(True)\n    SGLANG_DIR = EnvStr(lambda: 'x')\n"
        "    SGLANG_OLD = EnvIntWithAlias(3)\n"
        "_DEPRECATED_ENVS: dict = {'SGLANG_WAS': _DeprecatedEnv('SGLANG_ON'), "
        "'SGLANG_NOTED': _DeprecatedEnv(note='Pass --x instead.')}\n"
    )
    (root / "use.py").write_text(
        "import os\nos.environ.get('SGLANG_READ')\nos.environ['SGL_SHORT']\nprint('SGLANG_NOT is a word')\n"
    )
    found = {entry["name"]: entry for entry in tools.sglang.environment(tmp_path)}
    assert sorted(found) == [
        "SGLANG_DIR", "SGLANG_NOTED", "SGLANG_OLD", "SGLANG_ON", "SGLANG_READ", "SGLANG_WAS", "SGL_SHORT",
    ]  # fmt: skip
    assert found["SGLANG_ON"] == {"name": "SGLANG_ON", "type": "bool", "default": True}
    assert "default" not in found["SGLANG_DIR"]
    assert found["SGLANG_OLD"]["type"] == "int"
    assert found["SGLANG_WAS"]["deprecated"] == "use SGLANG_ON"
    assert found["SGLANG_NOTED"]["deprecated"] == "Pass --x instead."


def test_sglang_retired_flags_say_so(tools: Any) -> None:
    class DeprecatedStoreTrueAction(argparse.Action):
        def __init__(self, *args: Any, new_flag: str | None = None, **kwargs: Any) -> None:
            self.new_flag = new_flag
            super().__init__(*args, nargs=0, **kwargs)

    def human_readable_int(text: str) -> int:
        return int(text)

    parser = argparse.ArgumentParser()
    parser.add_argument("--old", action=DeprecatedStoreTrueAction, new_flag="--new")
    parser.add_argument("--size", type=human_readable_int)
    by_name = {flag["name"]: flag for flag in tools.dump.dump(parser)["flags"]}
    assert by_name["--old"]["deprecated"] == "use --new instead"
    assert by_name["--size"]["type"] == "si_int"


def test_metrics_by_a_class_that_was_chosen(tools: Any, tmp_path: Path) -> None:
    package = tmp_path / "eng"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "collector.py").write_text(
        "class Collector:\n"
        "    def __init__(self, labels):\n"
        "        from prometheus_client import Counter as _Counter\n"
        "        Counter = self._counter_cls or _Counter\n"
        "        self.a = Counter(name='eng:a_total', labelnames=[*labels.keys(), 'x'])\n"
        "        self.b = self._create_gauge(name='eng:b', labelnames=['y'])\n"
        "        from collections import Counter as Other\n"
        "        Other('eng:no')\n"
    )
    read = tools.ast.read_metrics(tmp_path, "eng", "eng:", [])
    assert [(m.name, m.kind, m.labels) for m in read.found] == [
        ("eng:a_total", "counter", None),
        ("eng:b", "gauge", ("y",)),
    ]


def test_a_package_is_what_is_pinned(tools: Any, tmp_path: Path) -> None:
    pin = tools.release.pinned("llama.cpp", "11434")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / pin["file"]).write_bytes(b"other")
    with pytest.raises(tools.release.ExtractionError, match="sha256 is"):
        tools.release.obtain("llama.cpp", "11434", tmp_path)
    with pytest.raises(tools.release.ExtractionError, match="needs a clone"):
        tools.tgi.git(tmp_path, "log")
