#!/bin/sh
# qwen3-30b-a3b on llama.cpp 11434 (mac-desk, qwen3-30b-a3b-0, blue)
set -eu
/bin/sh /usr/local/etc/rackwright/mac-desk/slots/qwen3-30b-a3b-0-blue/weights/qwen3-30b-a3b-0.sh quick
set -a
. /usr/local/etc/rackwright/mac-desk/slots/qwen3-30b-a3b-0-blue/env/qwen3-30b-a3b-0.env
. /usr/local/etc/rackwright/mac-desk/slots/qwen3-30b-a3b-0-blue/secrets.env
set +a
exec /opt/rackwright/engines/llama.cpp-11434/bin/llama-server --model /var/lib/models/qwen3-30b-a3b/model.gguf --alias qwen3-30b-a3b --gpu-layers all --fit off --ctx-size 65536 --parallel 4 --kv-unified --cache-ram 0 --batch-size 2048 --flash-attn on --host 127.0.0.1 --port 18000 --metrics --no-ui --offline --verbosity 2
