"""YAML by its events, in one pass: how ``rackwright.yamlio`` reads and writes plain documents, nearly all.

Both ways give exactly what PyYAML's own give, or None for a document with anything out of the ordinary
(anchors, tags, keys that stand twice, dates, types of one's own): the caller then takes the long way, which
also knows the words for what is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

WIDTH = 110
_KNOWN = 16384
"""Scalars remembered; most of a document's are keys and values that it has many times."""
_TAG = "tag:yaml.org,2002:"
_STR = f"{_TAG}str"
_PLAIN = frozenset(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null"))
_RESOLVER: Any = Resolver()
_NO_KEY = object()

Style = Callable[[str], str | None]
"""The style of a text: None for what the emitter chooses, ``|`` or a quotation mark."""


class _Unusual(Exception):
    """Something for the long way."""


def read(text: str, deepest: int) -> tuple[Any] | None:
    """The one document of ``text``, wrapped; None where the long way must look."""
    loader = _Loader(text)
    try:
        return (_read(loader.get_event, deepest),)
    except (_Unusual, yaml.YAMLError, ValueError, TypeError, OverflowError):
        return None
    finally:
        loader.dispose()


def _read(following: Callable[[], Any], deepest: int) -> Any:
    """Raises _Unusual: not one plain document."""
    following()
    if type(following()) is not DocumentStartEvent:
        raise _Unusual
    root: list[Any] = []
    stack: list[tuple[Any, set[str] | None, Any]] = []
    into: Any = root
    seen: set[str] | None = None
    key: Any = _NO_KEY
    while True:
        event = following()
        kind = type(event)
        if kind is ScalarEvent:
            if event.anchor is not None or event.tag is not None:
                raise _Unusual
            value = _value(event.value) if event.implicit[0] else event.value
            if seen is not None and key is _NO_KEY:
                if event.value in seen:
                    raise _Unusual
                seen.add(event.value)
                key = value
                continue
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.anchor is not None or event.tag is not None or len(stack) >= deepest:
                raise _Unusual
            if seen is not None and key is _NO_KEY:
                raise _Unusual
            stack.append((into, seen, key))
            into, seen, key = ({}, set(), _NO_KEY) if kind is MappingStartEvent else ([], None, _NO_KEY)
            continue
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            value = into
            into, seen, key = stack.pop()
        elif kind is DocumentEndEvent:
            break
        else:
            raise _Unusual
        if seen is None:
            into.append(value)
        else:
            into[key] = value
            key = _NO_KEY
    if type(following()) is not StreamEndEvent:
        raise _Unusual
    return root[0]


@lru_cache(maxsize=_KNOWN)
def _value(text: str) -> Any:
    """What a scalar without quotation marks stands for."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    if tag == _STR:
        return text
    if tag not in _PLAIN:
        raise _Unusual
    return SafeConstructor().construct_object(yaml.ScalarNode(tag, text))


def write(data: Any, style: Style) -> str | None:
    """``data`` in block style and in its own order, as ``yaml.dump`` writes it without aliases; None where it
    holds something that is not plain."""
    events: list[Any] = [StreamStartEvent(), DocumentStartEvent(explicit=False)]
    try:
        _add(data, style, events.append)
    except _Unusual:
        return None
    events += (DocumentEndEvent(explicit=False), StreamEndEvent())
    stream = io.StringIO()
    yaml.emit(events, stream, Dumper=_Dumper, allow_unicode=True, width=WIDTH)
    return stream.getvalue()


_MAPPING = MappingStartEvent(None, f"{_TAG}map", True, flow_style=False)
_MAPPING_END = MappingEndEvent()
_SEQUENCE = SequenceStartEvent(None, f"{_TAG}seq", True, flow_style=False)
_SEQUENCE_END = SequenceEndEvent()


def _add(value: Any, style: Style, add: Callable[[Any], None]) -> None:
    kind = type(value)
    if kind is str:
        add(_text(value, style))
    elif kind is dict:
        add(_MAPPING)
        for key, item in value.items():
            add(_text(key, style) if type(key) is str else _number(key))
            if type(item) is str:
                add(_text(item, style))
            else:
                _add(item, style, add)
        add(_MAPPING_END)
    elif kind is list or kind is tuple:
        add(_SEQUENCE)
        for item in value:
            _add(item, style, add)
        add(_SEQUENCE_END)
    else:
        add(_number(value))


@lru_cache(maxsize=_KNOWN)
def _text(text: str, style: Style) -> ScalarEvent:
    return _scalar(_STR, text, style(text))


def _number(value: Any) -> ScalarEvent:
    """A number, a boolean or nothing. Not remembered: equal ones, 1 and True, are written apart."""
    represent = _REPRESENTERS.get(type(value))
    if represent is None:
        raise _Unusual
    node = represent(_REPRESENTER, value)
    return _scalar(node.tag, node.value, None)


_REPRESENTER: Any = SafeRepresenter()
_REPRESENTERS: Mapping[type, Callable[[Any, Any], Any]] = {
    bool: SafeRepresenter.represent_bool,
    int: SafeRepresenter.represent_int,
    float: SafeRepresenter.represent_float,
    type(None): SafeRepresenter.represent_none,
}


@lru_cache(maxsize=_KNOWN)
def _scalar(tag: str, value: str, style: str | None) -> ScalarEvent:
    implicit = (
        _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == tag,
        _RESOLVER.resolve(yaml.ScalarNode, value, (False, True)) == tag,
    )
    return ScalarEvent(None, tag, implicit, value, style=style)
