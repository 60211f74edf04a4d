#!/usr/bin/env bash
# Runs a command that gets only the CPU time that nobody else wants:
#
#   tools/leftover.sh make sim &
#
# `nice` does not do that alone: the kernel shares the CPU out to sessions first (autogroup), and
# each node that `penstock up` starts has its own. So this one has one too, which comes last.
# $! is its process group: `kill -- -$!` ends all of it.
set -uo pipefail

if [[ ${1:-} != --in-its-session ]]; then
    exec setsid "$0" --in-its-session "$@"
fi
shift
{ echo 19 >/proc/self/autogroup; } 2>/dev/null || true
idle=()
if chrt --idle 0 true 2>/dev/null; then
    idle=(chrt --idle 0)
fi
exec nice -n 19 "${idle[@]}" "$@"
