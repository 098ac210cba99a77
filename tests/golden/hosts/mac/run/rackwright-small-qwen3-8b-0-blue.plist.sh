#!/bin/sh
# qwen3-8b on llama.cpp 11434 (small, qwen3-8b-0, blue)
set -eu
/bin/sh /usr/local/etc/rackwright/small/slots/qwen3-8b-0-blue/weights/qwen3-8b-0.sh quick
set -a
. /usr/local/etc/rackwright/small/slots/qwen3-8b-0-blue/env/qwen3-8b-0.env
. /usr/local/etc/rackwright/small/slots/qwen3-8b-0-blue/secrets.env
set +a
exec /opt/rackwright/engines/llama.cpp-11434/bin/llama-server --model /var/lib/models/qwen3-8b/model.gguf --alias qwen3-8b --gpu-layers all --fit off --ctx-size 131072 --parallel 16 --kv-unified --cache-ram 0 --batch-size 2048 --flash-attn on --host 127.0.0.1 --port 18000 --metrics --no-ui --offline --verbosity 2
