"""The floor: the same SSH library, concurrency and script, output read to the end, nothing judged or kept."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from pathlib import Path

from checks.registry import load
from checks.runner import scripts, select
from rackwright.inventory import bound, load_inventory
from rackwright.plan import load_plan
from remote.transport import Network, Settings, stream


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=Path, required=True)
    parser.add_argument("--forks", type=int, default=32)
    options = parser.parse_args()
    inventory = load_inventory(options.hosts)
    plan = load_plan(inventory.plan_path)
    inventory = bound(inventory, plan).inventory
    jobs: queue.SimpleQueue[object] = queue.SimpleQueue()
    todo = list(scripts(plan, inventory, select(load())))
    for job in todo:
        jobs.put(job)
    network, received, lock = Network(Settings()), [0, 0], threading.Lock()

    def work() -> None:
        while True:
            try:
                host, script = jobs.get_nowait()  # type: ignore[misc]
            except queue.Empty:
                return
            deadline = time.monotonic() + 60
            text = script.text(script.new_nonce(), 50).encode()
            with network.connect(host, deadline) as client:
                size = sum(
                    len(data) for data in stream(client, "sh -s", text, deadline=deadline, max_bytes=1 << 28)
                )
            with lock:
                received[0] += 1
                received[1] += size

    threads = [threading.Thread(target=work) for _ in range(min(options.forks, len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{received[0]} hosts, {received[1]} bytes")
    return 0 if received[0] == len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
