"""The shell text that every collector script shares: how commands are run, watched, kept and sent.

Names of its own begin with ``rw_``; :mod:`checks.collect` adds the table of commands and the groups to run.
"""

from __future__ import annotations

_BATCH = 12
"""Results that are sent together; a frame costs two processes on the host. What has come in is sent before a
slow tool is asked for the first time, since that is when a sick device hangs."""

# What the login's shell, root's shell and the shells that run the quick commands share. GNU timeout and the
# perl stand-in end a command with all its children; busybox's ends the command only, so it comes third. The
# last resort is a shell that watches a shell. A shell stands between timeout and a command because timeout
# waits for its child, and one that hangs in a driver cannot be killed: the shell can.
LIBRARY = r"""LC_ALL=C; export LC_ALL
umask 077
ulimit -c 0 2>/dev/null
rw_perl='$l=shift; $p=fork; if(!$p){setpgrp; exec @ARGV; exit 127}
$SIG{ALRM}=sub{kill "TERM",-$p; for(1..50){last if waitpid($p,1)>0; select undef,undef,undef,.1}
kill "KILL",-$p; exit 124};
alarm $l; waitpid $p,0; exit($?&127 ? 128+($?&127) : $?>>8)'
rw_hold="trap 'exit 143' TERM; "
if [ -r /proc/uptime ]; then
  rw_now() { read -r rw_u rw_x </proc/uptime; rw_u=${rw_u%.*}${rw_u#*.}; }
else
  rw_now() { rw_u=$(date +%s)00; }
fi
rw_say() { printf '\n@rw %s %s\n' "$rw_n" "$1"; }
rw_watch() {
  rw_l=$1; shift
  "$@" & rw_p=$!
  (
    trap 'kill $rw_s; exit' TERM
    sleep "$rw_l" & rw_s=$!
    wait $rw_s
    kill -TERM $rw_p; sleep 5; kill -KILL $rw_p
  ) >/dev/null 2>&1 & rw_w=$!
  wait $rw_p; rw_rc=$?
  kill $rw_w 2>/dev/null
  exit $rw_rc
}
rw_run() {
  case $rw_how in
    timeout | busybox) exec timeout -k ${rw_grace:-5} "$@" ;;
    perl) exec perl -e "$rw_perl" "$@" ;;
    *) rw_watch "$@" ;;
  esac
}
rw_add() {
  [ $rw_c -gt 0 ] || rw_first=$rw_u
  rw_b="$rw_b
$*"
  rw_c=$((rw_c + 1)) rw_total=$((rw_total + 1))
  if [ -s "$1.o" ]; then rw_f="$rw_f $1.o" rw_m=$((rw_m + 1)); fi
  if [ -s "$1.e" ]; then rw_f="$rw_f $1.e" rw_m=$((rw_m + 1)); fi
}
rw_flush() {
  [ $rw_c -gt 0 ] || return 0
  printf '%04096d' 0 >probe 2>/dev/null
  if [ -s probe ]; then : >probe; else rw_say full; fi
  printf '\n@rw %s frame %s %s%s\n' "$rw_n" $rw_c $rw_m "$rw_b"
  if [ $rw_m -gt 0 ]; then
    wc -c $rw_f
    cat $rw_f
    for rw_x in $rw_f; do : >"$rw_x"; done
  fi
  rw_say ok
  rw_c=0 rw_m=0 rw_b= rw_f=
}
rw_look() {
  rw_k=$1
  eval "set -- \$rw_p$1; rw_text=\$rw_t$1"
  rw_l=$1 rw_z=$2 rw_t=$3 rw_g=$4 rw_q=$5
}
rw_lacks() { [ "$rw_t" != - ] && ! command -v "$rw_t" >/dev/null 2>&1; }
rw_hang() { [ "$rw_g" = - ] || rw_hung="$rw_hung $rw_g"; }
rw_one() {
  rw_look $1
  rw_now; rw_s0=$rw_u
  rw_new=0
  case " - $rw_asked " in *" $rw_g "*) ;; *) rw_new=1 rw_asked="$rw_asked $rw_g" ;; esac
  if [ $rw_new = 1 ] || [ $rw_c -ge %BATCH% ] || [ $((rw_s0 - rw_first)) -ge 50 ]; then rw_flush; fi
  rw_left=$(((rw_end - rw_s0) / 100))
  if [ $rw_left -lt 1 ]; then rw_add $rw_k late - 0; return; fi
  if [ $rw_l -gt $rw_left ]; then rw_l=$rw_left; fi
  case " $rw_hung " in *" $rw_g "*) rw_add $rw_k hung - 0; return ;; esac
  if rw_lacks; then rw_add $rw_k missing - 0; return; fi
  (
    ulimit -f $rw_z 2>/dev/null
    case $rw_how.$rw_q in
      timeout.* | perl.*) rw_run $rw_l sh -c "$rw_hold$rw_text" ;;
      *.exec) eval "rw_run $rw_l $rw_text" ;;
      *) rw_run $rw_l sh -c "$rw_text" ;;
    esac
  ) </dev/null >"$rw_k.o" 2>"$rw_k.e"
  rw_rc=$?
  rw_now; rw_ms=$(((rw_u - rw_s0) * 10))
  rw_v=done
  case $rw_rc in
    124 | 137 | 143)
      if [ $((rw_ms + 60)) -ge $((rw_l * 1000)) ]; then
        rw_v=timeout
        rw_hang
      fi ;;
  esac
  rw_add $rw_k $rw_v $rw_rc $rw_ms
}
rw_members() {
  trap 'exit 143' TERM
  rw_now
  for rw_i in "$@"; do
    rw_look $rw_i
    case " $rw_hung " in *" $rw_g "*) echo "$rw_k hung - 0 $rw_u"; continue ;; esac
    if rw_lacks; then echo "$rw_k missing - 0 $rw_u"; continue; fi
    rw_s0=$rw_u
    [ $rw_q = eval ] || rw_text="exec $rw_text"
    ( ulimit -f $rw_z 2>/dev/null; eval "$rw_text" ) </dev/null >"$rw_k.o" 2>"$rw_k.e"
    rw_rc=$?
    rw_now
    echo "$rw_k done $rw_rc $(((rw_u - rw_s0) * 10)) $rw_u"
  done
}
rw_again() {
  rw_look $1
  if [ -n "${2:-}" ] && { [ $(($2 + 60)) -ge $((rw_l * 1000)) ] || [ $rw_u -gt $((rw_end - 100)) ]; }; then
    rw_add $rw_k timeout 124 $2
    rw_hang
  else
    rw_one $1
  fi
}
rw_group() {
  rw_limit=$1; shift
  case $# in
    0) return ;;
    1) rw_one $1; return ;;
  esac
  rw_now; rw_s0=$rw_u
  rw_left=$(((rw_end - rw_u) / 100))
  if [ $rw_limit -gt $rw_left ]; then rw_limit=$rw_left; fi
  rw_done=' ' rw_late=
  case $rw_how in
    timeout | perl)
      if [ $rw_limit -gt 0 ]; then
        rw_flush
        (
          rw_grace=1
          rw_run $rw_limit sh -c 'eval "$1"; eval "$2"; rw_hung=$3; shift 3; rw_members "$@"' \
            rw "$rw_lib" "$rw_table" "$rw_hung" "$@"
        ) </dev/null >group 2>/dev/null
        rw_begun=$rw_s0
        while read -r rw_k rw_v rw_rc rw_ms rw_x; do
          rw_add $rw_k $rw_v $rw_rc $rw_ms
          rw_done="$rw_done$rw_k " rw_begun=$rw_x
        done <group
        rw_now; rw_late=$(((rw_u - rw_begun) * 10))
      fi ;;
  esac
  for rw_i in "$@"; do
    case $rw_done in *" $rw_i "*) ;; *) rw_again $rw_i $rw_late; rw_late= ;; esac
  done
  rw_flush
}
rw_start() {
  rw_total=0 rw_c=0 rw_m=0 rw_b= rw_f= rw_asked=
  rw_now; rw_first=$rw_u
}
rw_groups() {
  while [ $# -gt 0 ]; do
    rw_set=; shift
    while [ "${1:--}" != - ]; do rw_set="$rw_set $1"; shift; done
    rw_group $rw_set
  done
}
rw_as_root() {
  PATH=$2 rw_n=$3 rw_end=$4 rw_how=$5 rw_hung=$6 rw_table=$7; export PATH
  cd "$1" || exit 1
  shift 7
  trap 'exit 1' HUP INT TERM PIPE
  echo "@rw begin" >&2
  eval "$rw_table"
  rw_start
  rw_groups "$@"
  rw_flush
  echo "@rw end $rw_total $rw_hung" >&2
}
rw_privileged() {
  rw_uid=
  if [ -r /proc/self/status ]; then
    while read -r rw_k rw_x rw_v; do
      case $rw_k in Uid:) rw_uid=${rw_v%%[!0-9]*} ;; esac
    done </proc/self/status
  fi
  if [ "${rw_uid:=$(id -u)}" = 0 ]; then
    rw_own=$rw_table rw_table=$rw_roots
    eval "$rw_table"
    rw_groups "$@"
    rw_table=$rw_own
    return
  fi
  rw_flush
  sudo -n sh -c 'rw_lib=$1; shift; eval "$rw_lib"; rw_as_root "$@"' rw "$rw_lib" "$rw_d" "$PATH" \
    "$rw_n" "$rw_end" "$rw_how" "$rw_hung" "$rw_roots" "$@" </dev/null 2>root
  rw_begun=0
  while read -r rw_x rw_v rw_k rw_y; do
    case "$rw_x $rw_v" in
      "@rw begin") rw_begun=1 ;;
      "@rw end") rw_total=$((rw_total + rw_k)) rw_hung=$rw_y ;;
    esac
  done <root
  [ $rw_begun = 0 ] || return 0
  while [ $# -gt 0 ]; do
    shift 2
    while [ "${1:--}" != - ]; do rw_add $1 denied - 0; shift; done
  done
}
""".replace("%BATCH%", str(_BATCH))

PROLOGUE = r"""
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
rw_d=
for rw_t in /dev/shm "${TMPDIR:-/tmp}" /tmp; do
  if [ -d "$rw_t" ] && [ -w "$rw_t" ]; then
    rw_d=$(mktemp -d "$rw_t/rackwright.XXXXXX" 2>/dev/null) && break
    rw_d=
  fi
done
if [ -z "$rw_d" ]; then
  rw_say "fatal no temporary directory could be made in /dev/shm, ${TMPDIR:-/tmp} or /tmp"
  exit 3
fi
trap 'cd /; rm -rf "$rw_d"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cd "$rw_d" || exit 3
if timeout --foreground -k 1 5 true 2>/dev/null; then rw_how=timeout
elif perl -e 1 2>/dev/null; then rw_how=perl
elif timeout -k 1 5 true 2>/dev/null; then rw_how=busybox
else rw_how=sh
fi
rw_hung=
rw_start; rw_end=$((rw_u + rw_allowed * 100))"""

EPILOGUE = r"""rw_flush
rw_say "end $rw_total"
exit 0
"""
