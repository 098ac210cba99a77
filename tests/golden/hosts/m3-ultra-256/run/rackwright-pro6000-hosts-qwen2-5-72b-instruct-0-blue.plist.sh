#!/bin/sh
# qwen2.5-72b-instruct on vllm 0.33.0 (pro6000-hosts, qwen2-5-72b-instruct-0, blue)
set -eu
/bin/sh /usr/local/etc/rackwright/pro6000-hosts/slots/qwen2-5-72b-instruct-0-blue/weights/qwen2-5-72b-instruct-0.sh quick
set -a
. /usr/local/etc/rackwright/pro6000-hosts/slots/qwen2-5-72b-instruct-0-blue/env/qwen2-5-72b-instruct-0.env
. /usr/local/etc/rackwright/pro6000-hosts/slots/qwen2-5-72b-instruct-0-blue/secrets.env
set +a
exec /opt/rackwright/engines/vllm-0.33.0/bin/vllm serve /var/lib/models/qwen2.5-72b-instruct --served-model-name=qwen2.5-72b-instruct --tensor-parallel-size=1 --max-model-len=16384 --max-num-batched-tokens=8192 --max-num-seqs=24 --gpu-memory-utilization=0.88 --enable-prefix-caching --kv-cache-dtype=fp8 --host=127.0.0.1 --port=18000 --max-num-queued-reqs=8 --shutdown-timeout=60 --disable-access-log-for-endpoints=/health,/metrics
