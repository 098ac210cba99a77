#!/usr/bin/env bash
# Make the virtual environment from the lock file, and install the system packages the simulated rack needs.
set -euo pipefail
venv=$1
cd "$(dirname "$0")/.."
say() { printf 'setup: %s\n' "$*" >&2; }

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { say "Python 3.11 or newer is needed, found $("$python" -V 2>&1); next: PYTHON=/path/to/python3.11 make …"; exit 2; }

missing=()
[ -x /usr/sbin/sshd ] || missing+=(openssh-server)
command -v ssh-keygen >/dev/null || missing+=(openssh-client)
[ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v curl >/dev/null || missing+=(curl)
command -v unshare >/dev/null || missing+=(util-linux)
command -v ip >/dev/null || missing+=(iproute2)
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        # A service that apt would start is not wanted: the rack runs its own sshd processes.
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
            trap 'rm -f "$policy"' EXIT
        fi
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    else
        say "not installed: ${missing[*]}; the simulated rack is unavailable. next: sudo apt-get install ${missing[*]}"
    fi
fi

[ -x "$venv/bin/python" ] || { say "making $venv"; "$python" -m venv "$venv"; }
say "installing the locked packages"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
