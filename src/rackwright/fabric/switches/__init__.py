"""Switch operating systems that there is a configuration for. One module each."""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.fabric.switches import cumulus, eos, sonic
from rackwright.fabric.switches.base import SwitchOs

OS: Mapping[str, SwitchOs] = {system.name: system for system in (sonic.SONIC, cumulus.CUMULUS, eos.EOS)}
