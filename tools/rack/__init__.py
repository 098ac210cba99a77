"""A simulated rack: hosts that answer by SSH and show what real machines would, healthy or with faults.

Every host is one sshd on a loopback address, alone in mount, UTS and PID namespaces. It sees a /sys, /proc,
/dev, /home and a set of commands made for it from the plan; of the machine that runs the rack it sees the
libraries and a few plain tools. Logins are for `ops` (user id 1000, key only); `sudo -n` works without being
root: recordings that need root look for the variable it sets.

Commands replay recordings by exact argument vector. One without a recording ends with 97, says so, and is
written to the host's log (`python -m tools.rack status` shows it): a new check's command is noticed at once.
Lists of fields of `nvidia-smi --query-gpu` and `--query-compute-apps` are answered whatever they name.

What is not simulated: load on the wire, counters that grow, time that passes between two readings, loss of
packets. A host's readings stand still until a fault is planted or healed.
"""
