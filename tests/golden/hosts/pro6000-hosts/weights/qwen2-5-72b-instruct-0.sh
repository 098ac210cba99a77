#!/bin/sh
# Whether the weights are there: "quick" before each start, "full" before a release is activated.
set -eu
path=/var/lib/models/qwen2.5-72b-instruct
manifest=/var/lib/models/qwen2.5-72b-instruct/SHA256SUMS
sha256=''

wrong() { echo "weights: $path: $1" >&2; exit 1; }

[ -d "$path" ] || wrong "no such directory; fetch hf://RedHatAI/Qwen2.5-72B-Instruct-FP8-dynamic into it"
[ -f "$path/config.json" ] || [ -n "$(find "$path" -name '*.gguf' | head -n 1)" ] ||
    wrong "neither config.json nor a .gguf file: no model"
pointers=$(find "$path" -type f -size -2 -exec grep -l '^version https://git-lfs' {} + | head -n 3) || true
[ -z "$pointers" ] || wrong "Git LFS pointers in place of files: $pointers"
kib=$(du -skL --apparent-size "$path" | cut -f 1)
[ "$kib" -ge 72064453 ] || wrong "$kib KiB, less than the 72064453 KiB of the plan's weights"
if [ "$sha256" ]; then
    [ -f "$manifest" ] || wrong "no manifest $manifest"
    found=$(sha256sum <"$manifest" | cut -d ' ' -f 1)
    [ "$found" = "$sha256" ] || wrong "the manifest's SHA-256 is $found, planned is $sha256"
    if [ "${1:-quick}" = full ]; then
        (cd "$path" && sha256sum -c "$manifest" >/dev/null) || wrong "files differ from the manifest"
    fi
    echo "weights: manifest sha256 $found"
fi
