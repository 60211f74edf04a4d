#!/bin/bash
# The README's two commands on a machine that has nothing but python3, make and git: an empty Debian
# in a directory, whose host name does not resolve. Run before each release, as root.
#
#   tools/fresh_machine.sh bookworm            make demo, then make test-unit
#   tools/fresh_machine.sh trixie DIR          keep the machine in DIR
#   FRESH_STEPS="demo" tools/fresh_machine.sh bookworm     some steps only
#   FRESH_CC=/bin/false tools/fresh_machine.sh bookworm    without a C compiler
#
# Says for each step how long it took and for how long it was silent at most, and fails when a step
# fails or was silent for more than 15 s; tests, of which one may take a minute, for 5 minutes. The last commit is taken. apt and pip are set up as on this
# machine; the packages come from where its own apt gets them, or from FRESH_MIRROR. Needs
# debootstrap, unshare and about 6 GB.
set -euo pipefail

suite=${1:?suite, such as bookworm or trixie}
here=$(cd "$(dirname "$0")/.." && pwd)
steps=${FRESH_STEPS:-demo test-unit}
silence_max() { case $1 in test*) echo 300 ;; *) echo 15 ;; esac; }

[[ $(id -u) == 0 ]] || { echo "fresh: needs root, for chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh: apt-get install debootstrap" >&2; exit 2; }

# In namespaces of its own: what it starts ends with it, and what it mounts is gone.
if [[ -z ${FRESH_INSIDE:-} ]]; then
    exec env FRESH_INSIDE=1 unshare --mount --uts --pid --fork --kill-child "$0" "$@"
fi
mount --make-rprivate /
mount -t proc proc /proc
hostname penstock-fresh-machine # in nobody's hosts file

root=${2:-$(mktemp -d)}
home=/srv
[[ -n ${2:-} ]] || trap 'umount -lR "$root/proc" "$root/dev" "$root/sys" 2>/dev/null; rm -rf "$root"' EXIT
mkdir -p "$root"

# Debian's own packages: lists of others, which some programs bring with them, come first.
mirror() {
    [[ -z ${FRESH_MIRROR:-} ]] || { echo "$FRESH_MIRROR"; return; }
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] *)?([^ ]+).*/\2/p' |
        awk '{ if (!first || (/\/debian\/?$/ && !(first ~ /\/debian\/?$/))) first = $0 } END { print first }'
}

if [[ ! -x $root/usr/bin/python3 ]]; then
    echo "fresh: $suite into $root, some minutes"
    said=$(mktemp)
    debootstrap --variant=minbase --include=python3,make,git,ca-certificates \
        "$suite" "$root" "$(mirror)" >"$said" 2>&1 || { tail -n 5 "$said" >&2; exit 1; }
    rm -f "$said"
fi

# How this machine reaches its registries: names, proxies, certificates, pip's and apt's settings.
copy() { for file in "$@"; do [[ ! -e $file ]] || cp -a --parents -L "$file" "$root"; done; }
copy /etc/resolv.conf /etc/pip.conf ~/.config/pip ~/.pip /usr/local/share/ca-certificates
copy /etc/ssl/certs/ca-certificates.crt
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if grep -q '^ *Acquire' "$file" 2>/dev/null; then copy "$file"; fi
done
echo "127.0.0.1 localhost" >"$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"

mkdir -p "$root$home"
[[ -d $root$home/penstock/.git ]] || git clone -q --no-local "$here" "$root$home/penstock"
git -C "$root$home/penstock" -c advice.detachedHead=false fetch -q "$here" HEAD
git -C "$root$home/penstock" -c advice.detachedHead=false checkout -q FETCH_HEAD

reach=()
while IFS='=' read -r name value; do reach+=("$name=$value"); done < <(
    env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_[A-Z_]+|(SSL|CURL|REQUESTS)_[A-Z_]+)=' || true
)
[[ -z ${FRESH_CC:-} ]] || reach+=("CC=$FRESH_CC")
inside() {
    chroot "$root" /usr/bin/env -i HOME="$home" LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        "${reach[@]}" /bin/sh -c "cd $home/penstock && $1" </dev/null
}

# Copies what a step says, and notes its time and its longest silence.
watched() {
    inside "$1 2>&1" | python3 -u -c '
import os, select, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
began = last = time.monotonic()
longest, said = 0.0, ""
while True:
    ready, _, _ = select.select([sys.stdin], [], [], 1)
    now = time.monotonic()
    longest = max(longest, now - last)
    if not ready:
        continue
    line = os.read(0, 65536)
    if not line:
        break
    last = now
    os.write(1, line)
print(f"fresh: {sys.argv[1]}: {now - began:.0f} s, silent for {longest:.0f} s at most")
sys.exit(longest > float(sys.argv[2]))' "$1" "$2"
}

failed=0
for step in $steps; do
    watched "make $step" "$(silence_max "$step")" || { failed=1; echo "fresh: make $step failed, or was silent for too long"; }
done
inside ".venv/bin/penstock --version" || failed=1
exit "$failed"
