#!/bin/sh
# Written by rackwright: checks, activates, shows and removes what stands on this host. Run by root:
#   host.sh unpack NAME <release.tar | check NAME | activate NAME | status | files | remove
# Values are this file's own constants and words of the release's file "replicas".
set -eu
umask 022
LC_ALL=C
export LC_ALL
root=/etc/rackwright/pro6000-hosts
plan=pro6000-hosts
unit_dir=/etc/systemd/system
front_link=/etc/nginx/conf.d/rackwright-pro6000-hosts.conf
key_variable=VLLM_API_KEY
said=

say() { printf '%s\n' "$*" || :; }
why() { said=1; say "why $*"; }
die() { why "$@"; exit 2; }

# --- links and locks

relink() { # TARGET LINK: in one step, whatever the link was
    rm -f "$2.new"
    ln -s "$1" "$2.new"
    mv -fT "$2.new" "$2"
}

lock() { # one change at a time; a lock whose process is gone is taken over
    mkdir -p "$root/slots" "$root/state" "$root/active"
    if ! mkdir "$root/lock" 2>/dev/null; then
        holder=$(cat "$root/lock/pid" 2>/dev/null || :)
        if [ "$holder" ] && kill -0 "$holder" 2>/dev/null; then
            die "another change is under way (process $holder)"
        fi
        mkdir -p "$root/lock"
    fi
    echo $$ >"$root/lock/pid"
}
unlock() { rm -rf "$root/lock"; }

# --- the service manager

svc_link() { relink "$root/slots/$2/units/$1" "$unit_dir/$1"; }
svc_unlink() { rm -f "$unit_dir/$1"; }
svc_start() { systemctl reset-failed "$1" 2>/dev/null || :; systemctl start "$1" 2>&1; }
svc_stop() { systemctl stop "$1" 2>&1; }
svc_enable() { # a link that systemd itself would make, so that nothing but this file decides where it leads
    mkdir -p "$unit_dir/multi-user.target.wants"
    relink "$unit_dir/$1" "$unit_dir/multi-user.target.wants/$1"
}
svc_disable() { rm -f "$unit_dir/multi-user.target.wants/$1"; }
svc_active() { systemctl is-active --quiet "$1"; }
svc_enabled() { [ -L "$unit_dir/multi-user.target.wants/$1" ]; }
svc_restarts() { systemctl show --property=NRestarts --value "$1" 2>/dev/null || :; }
svc_log() { journalctl --unit="$1" --lines=15 --no-pager --output=cat 2>/dev/null || :; }
svc_reload() { systemctl daemon-reload; }
svc_verify() { # warnings are errors; those of units that are not ours are not
    systemd-analyze verify "$1" 2>&1 | grep -F rackwright- || :
}
front_active() { systemctl is-active --quiet nginx.service; }
front_reload() { systemctl reload-or-restart nginx.service 2>&1; }
sum() { sha256sum "$@"; }
mode() { stat -c '%a' "$1"; }
owner() { stat -c '%u' "$1"; }

# --- a release

unpack() { # NAME: the archive on standard input becomes a release, whole or not at all
    mkdir -p "$root/releases"
    chmod 0755 "$root" "$root/releases"
    part=$root/releases/.part.$$
    trap 'rm -rf "$part"' EXIT
    mkdir -m 0755 "$part"
    tar -xf - -C "$part" --no-same-owner
    n=0 name=$1
    while [ -e "$root/releases/$name" ]; do n=$((n + 1)) name=$1.$n; done
    mv "$part" "$root/releases/$name"
    say "release $name"
}

check() { # NAME: everything that can be known before anything is switched; all of it is said
    dir=$root/releases/$1
    if ! command -v docker >/dev/null; then
        why "docker is not installed; the engine runs from an image"
    elif ! docker image inspect docker.io/vllm/vllm-openai@sha256:0000000000000000000000000000000000000000000000000000000000000000 >/dev/null 2>&1 && ! found=$(docker pull --quiet docker.io/vllm/vllm-openai@sha256:0000000000000000000000000000000000000000000000000000000000000000 2>&1); then
        why "the image "docker.io/vllm/vllm-openai@sha256:0000000000000000000000000000000000000000000000000000000000000000" cannot be had: $found"
    fi
    [ -r /etc/rackwright-tls/fullchain.pem ] || why "no file "/etc/rackwright-tls/fullchain.pem": nginx needs it for TLS"
    [ -r /etc/rackwright-tls/privkey.pem ] || why "no file "/etc/rackwright-tls/privkey.pem": nginx needs it for TLS"
    command -v curl >/dev/null || why "curl is not installed; whether an engine generates is asked with it"
    [ -s "$dir/secrets.env" ] || why "no API key in secrets.env"
    for unit in "$dir"/units/*; do
        found=$(svc_verify "$unit")
        [ -z "$found" ] || why "unit ${unit##*/}: $found"
    done
    for file in "$dir"/weights/*.sh; do
        found=$(/bin/sh "$file" full 2>&1) || why "$found"
    done
    if ! command -v nginx >/dev/null; then
        why "nginx is not installed; it stands in front of the engines"
    elif ! found=$(nginx -t -q -c "$dir/nginx/check.conf" 2>&1); then
        why "nginx: $found"
    fi
    [ -d "${front_link%/*}" ] || why "no directory ${front_link%/*}: nginx must include its *.conf"
    if [ "$said" ]; then
        rm -rf "$dir"
        exit 2
    fi
    say "checked $1"
}

generates() { # SLOT DEPLOYMENT: one token, so that a process that merely listens does not pass
    at=$root/slots/$1
    port=$(sed -n 's/^server 127\.0\.0\.1:\([0-9]*\) .*/\1/p' "$at/nginx/$1.conf")
    asked "$at" "$2" "http://127.0.0.1:$port/v1/completions"
}

through_front() { # DEPLOYMENT: the same as a client asks, but that the certificate may be for later
    read -r scheme hostname port <"$dir/fronts/$1"
    tries=0
    until asked "$dir" "$1" "$scheme://$hostname:$port/v1/completions" --insecure \
        --resolve "$hostname:$port:127.0.0.1"; do
        tries=$((tries + 1))
        if [ "$tries" -ge 10 ]; then
            why "nginx did not lead to $1: $(printf '%s' "$answer" | tr '\n' ' ' | cut -c 1-300)"
            why "whether it includes ${front_link%/*}/*.conf: nginx -T"
            return 1
        fi
        sleep 1
    done
}

asked() { # RELEASE DEPLOYMENT URL OPTION...: the key goes by standard input
    key=$(sed -n "s/^$key_variable=//p" "$1/secrets.env")
    request=$1/requests/$2.json
    shift 2
    answer=$(printf 'header = "Authorization: Bearer %s"\n' "$key" |
        curl --silent --show-error --noproxy '*' --max-time 20 --config - \
            --header 'Content-Type: application/json' --data-binary "@$request" \
            --write-out '\nstatus %{http_code}' "$@" 2>&1) || :
    case $answer in
        *'"choices"'*"status 200") return 0 ;;
        *) return 1 ;;
    esac
}

wait_ready() { # SLOT DEPLOYMENT UNIT SECONDS
    waited=0
    while ! generates "$1" "$2"; do
        restarts=$(svc_restarts "$3")
        if [ "${restarts:-0}" -ge 3 ] 2>/dev/null; then
            why "$3 ended ${restarts} times"
            svc_log "$3"
            return 1
        fi
        if [ "$waited" -ge "$4" ]; then
            why "$3 generated no token within $4 s; its last answer: $(printf '%s' "$answer" | tr '\n' ' ' | cut -c 1-300)"
            svc_log "$3"
            return 1
        fi
        sleep 1
        waited=$((waited + 1))
    done
    say "ready $1"
}

point() { # DEPLOYMENT REPLICA SLOT: nginx's line of a replica
    mkdir -p "$root/active/$1"
    relink "$root/slots/$3/nginx/$3.conf" "$root/active/$1/$2.conf"
}

front() { # nginx with the links as they are now, tested first
    found=$(nginx -t -q 2>&1) || { why "nginx: $found"; return 1; }
    front_reload || { why "nginx did not reload"; return 1; }
}

same_engine() { # SLOT REPLICA UNIT DIR: what runs there is what the release in DIR would start
    for file in "units/$3" "env/$2.env" "weights/$2.sh" "secrets.env"; do
        cmp -s "$root/slots/$1/$file" "$4/$file" || return 1
    done
}

unit_of() { [ "$1" = blue ] && printf '%s' "$blue" || printf '%s' "$green"; }

switch() { # one replica to the release; what was done is noted in $undo as it is done
    active=$(cat "$root/state/$name" 2>/dev/null || :)
    if [ "$active" ]; then
        unit=$(unit_of "$active")
        if same_engine "$name-$active" "$name" "$unit" "$dir" && svc_active "$unit" &&
            generates "$name-$active" "$deployment"; then
            echo "kept $name $active $(readlink "$root/slots/$name-$active")" >>"$undo"
            relink "$dir" "$root/slots/$name-$active"
            svc_link "$unit" "$name-$active"
            svc_enable "$unit"
            svc_reload
            point "$deployment" "$name" "$name-$active"
            say "unchanged $name $active"
            return 0
        fi
    fi
    idle=blue
    [ "$active" = blue ] && idle=green
    unit=$(unit_of "$idle")
    echo "switched $name $deployment ${active:-none} $idle" >>"$undo"
    svc_stop "$unit" >/dev/null 2>&1 || :
    relink "$dir" "$root/slots/$name-$idle"
    svc_link "$unit" "$name-$idle"
    svc_reload
    if [ "$active" ] && [ "$how" = instead ]; then
        svc_stop "$(unit_of "$active")" || { why "$(unit_of "$active") did not stop"; return 1; }
    fi
    svc_start "$unit" || { why "$unit did not start"; svc_log "$unit"; return 1; }
    wait_ready "$name-$idle" "$deployment" "$unit" "$startup" || return 1
    point "$deployment" "$name" "$name-$idle"
    if [ -L "$root/current" ]; then
        front || return 1
    fi
    svc_enable "$unit"
    if [ "$active" ]; then
        if [ "$how" = beside ] && svc_active "$(unit_of "$active")"; then
            sleep "$drain"
        fi
        svc_disable "$(unit_of "$active")"
        svc_stop "$(unit_of "$active")" || :
    fi
    echo "$idle" >"$root/state/$name"
    say "switched $name ${active:-none} $idle"
}

back() { # undo what was done, last first; the engines that served before serve again
    whole=yes
    if [ "$previous" ]; then
        relink "$previous" "$root/current"
    else
        rm -f "$root/current" "$front_link"
    fi
    sed '1!G;h;$!d' "$undo" >"$undo.back"
    while read -r what name one two three <&4; do
        if [ "$what" = kept ]; then
            relink "$two" "$root/slots/$name-$one"
            svc_reload
            continue
        fi
        deployment=$one active=$two idle=$three
        line=$(grep "^$name " "$dir/replicas")
        # shellcheck disable=SC2086 # words by design
        set -- $line
        startup=$4 blue=$6 green=$7
        svc_disable "$(unit_of "$idle")"
        svc_stop "$(unit_of "$idle")" >/dev/null 2>&1 || :
        svc_unlink "$(unit_of "$idle")"
        rm -f "$root/slots/$name-$idle"
        svc_reload
        if [ "$active" = none ]; then
            rm -f "$root/active/$deployment/$name.conf" "$root/state/$name"
            continue
        fi
        echo "$active" >"$root/state/$name"
        svc_active "$(unit_of "$active")" || svc_start "$(unit_of "$active")" || whole=no
        wait_ready "$name-$active" "$deployment" "$(unit_of "$active")" "$startup" || whole=no
        svc_enable "$(unit_of "$active")"
        point "$deployment" "$name" "$name-$active"
    done 4<"$undo.back"
    if [ "$previous" ]; then
        front || whole=no
    elif front_active; then
        front_reload || whole=no
    fi
    rm -f "$undo" "$undo.back"
    if [ "$dir" != "$previous" ] && ! leads_to "$dir"; then
        rm -rf "$dir"
    fi
    if [ "$whole" = yes ]; then
        say "back ${previous##*/}"
        exit 3
    fi
    say "broken ${previous##*/}"
    exit 4
}

activate() { # NAME
    trap '' HUP PIPE
    dir=$root/releases/$1
    [ -d "$dir" ] || die "no release $1 on this host"
    lock
    trap unlock EXIT
    undo=$root/undo
    : >"$undo"
    previous=$(readlink "$root/current" 2>/dev/null || :)
    while read -r name deployment how startup drain blue green <&3; do
        switch || back
    done 3<"$dir/replicas"
    relink "$dir" "$root/current"
    relink "$root/current/nginx/front.conf" "$front_link"
    front || back
    for file in "$dir"/fronts/*; do
        through_front "${file##*/}" || back
    done
    retire
    rm -f "$undo"
    say "active $1"
}

retire() { # replicas and releases that the current one does not have
    for file in "$root"/state/*; do
        [ -e "$file" ] || continue
        name=${file##*/}
        if ! grep -q "^$name " "$dir/replicas"; then
            gone "$name"
            rm -f "$root"/active/*/"$name.conf" "$file"
        fi
    done
    for release in "$root"/releases/*; do
        [ "$release" = "$dir" ] || [ "$release" = "$previous" ] && continue
        leads_to "$release" || rm -rf "$release"
    done
}

leads_to() { # RELEASE: whether a slot does
    for slot in "$root"/slots/*; do
        [ "$(readlink "$slot" 2>/dev/null)" = "$1" ] && return 0
    done
    return 1
}

gone() { # REPLICA: both of its units
    for slot in "$root/slots/$1-blue" "$root/slots/$1-green"; do
        [ -L "$slot" ] || continue
        for file in "$slot"/units/*"-${slot##*/}".*; do
            [ -e "$file" ] || continue
            svc_disable "${file##*/}"
            svc_stop "${file##*/}" >/dev/null 2>&1 || :
            svc_unlink "${file##*/}"
        done
        rm -f "$slot"
    done
    svc_reload
}

# --- what stands here

status() {
    [ -L "$root/current" ] || { say "absent"; return 0; }
    dir=$(readlink "$root/current")
    say "release ${dir##*/}"
    cd "$dir"
    find . -type f | sed 's,^\./,,' | while read -r path; do
        say "file $(sum <"$path" | cut -d ' ' -f 1) $(mode "$path") $(owner "$path") $path"
    done
    if [ -f replicas ]; then
        while read -r name deployment how startup drain blue green <&3; do
            colour=$(cat "$root/state/$name" 2>/dev/null || :)
            state="serves"
            unit=$(unit_of "${colour:-blue}")
            if [ -z "$colour" ]; then
                state="was never activated"
            elif ! cmp -s "$unit_dir/$unit" "$dir/units/$unit"; then
                state="its unit file is another"
            elif [ "$(readlink "$root/active/$deployment/$name.conf" 2>/dev/null)" != "$root/slots/$name-$colour/nginx/$name-$colour.conf" ]; then
                state="nginx does not lead to it"
            elif ! svc_enabled "$unit"; then
                state="does not start at boot"
            elif ! svc_active "$unit"; then
                state="is stopped"
            fi
            say "replica $name $state"
        done 3<replicas
    fi
    if [ "$(readlink "$front_link" 2>/dev/null)" != "$root/current/nginx/front.conf" ]; then
        say "front is not linked"
    elif front_active; then
        say "front serves"
    else
        say "front is stopped"
    fi
}

files() { # everything of the current release but the secrets
    dir=$(readlink "$root/current")
    cd "$dir"
    tar -cf - --exclude='./secrets.env' .
}

remove() { # NAME-less: units, links, releases; weights, images and nginx itself stay
    if [ -d "$root" ]; then
        lock
        trap unlock EXIT
        for slot in "$root"/slots/*; do
            [ -L "$slot" ] || continue
            name=${slot##*/}
            name=${name%-*}
            gone "$name"
        done
    fi
    had=
    [ -L "$front_link" ] && had=yes
    rm -f "$front_link"
    if [ "$had" ] && front_active; then
        found=$(nginx -t -q 2>&1) || die "nginx: $found"
        front_reload || die "nginx did not reload"
    fi
    rm -rf "$root"
    rmdir "${root%/*}" 2>/dev/null || :
    say "removed $plan"
}

main() {
    case ${1:-} in
        unpack | check | activate) [ "${2:-}" ] || die "$1 needs the name of a release"; "$1" "$2" ;;
        status | files | remove) "$1" ;;
        *) die "unknown: ${1:-nothing}; unpack, check, activate, status, files or remove" ;;
    esac
}

main "$@"
exit
