"""What accelerators of other vendors than NVIDIA must show, beside what ``gpu`` says of all."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import NotApplicable, Section

NA = NotApplicable
Vendor = Literal["nvidia", "amd", "huawei", "apple", "intel", "moore-threads", "biren", "cambricon"]


class DeviceExpectation(Section):
    """``chips``: that the vendor's tool lists on one host (a card may carry several). ``memory_min_mib``: of
    each, as the tool prints the total. ``driver_min``: the oldest driver or system release.
    ``health``: the tool's word for a sound device. ``peer_links``: devices that each device must reach over
    the vendor's own link. ``network_link``: whether each device's own network port must be up.
    ``compute_partition``, ``memory_partition``: one device a card, or shares of it. ``throttled``: whether
    clocks may be held down. ``bad_pages_max``: pages that wait to be retired, or could not be.
    ``corrected_max``: corrected memory errors; more is a warning. ``wired_limit_min_mib``: what the system
    must let the GPU wire of the memory it shares. ``sleep``: whether the machine may go to sleep.
    ``disk_free_min_bytes``: on the model directory's volume, where only macOS' own tools read it.
    """

    chips: int | NA | None = None
    memory_min_mib: int | NA | None = None
    driver_min: str | NA | None = None
    health: str | NA | None = None
    peer_links: int | NA | None = None
    network_link: bool | NA | None = None
    compute_partition: str | NA | None = None
    memory_partition: str | NA | None = None
    throttled: bool | NA | None = None
    bad_pages_max: int | NA | None = None
    corrected_max: int | NA | None = None
    disk_free_min_bytes: int | NA | None = None
    wired_limit_min_mib: int | NA | None = None
    sleep: bool | NA | None = None
