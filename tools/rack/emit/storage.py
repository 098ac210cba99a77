"""NVMe devices and the file system of the model directory."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.rack.emit.core import Recording
from tools.rack.state import Disk, HostState


def recordings(state: HostState) -> Iterator[Recording]:
    yield Recording("df", f"-P -B1 -- {state.model_dir}", model_dir(state))
    yield Recording("df", f"-P -B1 {state.model_dir}", model_dir(state))
    yield Recording("lsblk", "-J -b -o NAME,TYPE,SIZE,MOUNTPOINT", block_devices(state))
    for disk in state.disks:
        yield Recording(
            "nvme",
            f"smart-log -o json /dev/nvme{disk.index}",
            smart_log(disk),
            root=True,
            refusal="Permission denied",
        )


def model_dir(state: HostState) -> str:
    total, free = state.model_bytes_total, state.model_bytes_free
    used = total - free
    share = round(100 * used / total)
    return (
        "Filesystem     1-blocks         Used    Available Capacity Mounted on\n"
        f"/dev/md0       {total} {used} {free}     {share}% {state.model_dir}\n"
    )


def smart_log(disk: Disk) -> str:
    return (
        json.dumps(
            {
                "critical_warning": disk.critical_warning,
                "temperature": disk.temperature_c + 273,
                "avail_spare": disk.available_spare,
                "spare_thresh": 10,
                "percent_used": disk.percentage_used,
                "endurance_grp_critical_warning_summary": 0,
                "data_units_read": "412938811",
                "data_units_written": "98123377",
                "host_read_commands": "3391028813",
                "host_write_commands": "772918301",
                "controller_busy_time": "10233",
                "power_cycles": "41",
                "power_on_hours": "7213",
                "unsafe_shutdowns": "7",
                "media_errors": str(disk.media_errors),
                "num_err_log_entries": "0",
                "warning_temp_time": 0,
                "critical_comp_time": 0,
                "temperature_sensor_1": disk.temperature_c + 273,
                "temperature_sensor_2": disk.temperature_c + 281,
            },
            indent=2,
        )
        + "\n"
    )


def block_devices(state: HostState) -> str:
    system: list[dict[str, object]] = [
        {"name": "sda1", "type": "part", "size": 1_127_219_200, "mountpoint": "/boot/efi"},
        {"name": "sda2", "type": "part", "size": 958_961_614_848, "mountpoint": "/"},
    ]
    devices: list[dict[str, object]] = [
        {"name": "sda", "type": "disk", "size": 960_197_124_096, "mountpoint": None, "children": system}
    ]
    array = {"name": "md0", "type": "raid0", "size": state.model_bytes_total, "mountpoint": state.model_dir}
    devices += [
        {
            "name": f"nvme{disk.index}n1",
            "type": "disk",
            "size": disk.bytes,
            "mountpoint": None,
            "children": [array],
        }
        for disk in state.disks
    ]
    return json.dumps({"blockdevices": devices}, indent=3) + "\n"
