#!/bin/sh
# Sees to it that the `etcd` command is there, for the tests of metadata in etcd: installs Debian's
# etcd-server if it may, without its service, which the tests do not want (they start their own).
# Exit code 1, with the one line that helps, if it may not.
set -eu

command -v etcd >/dev/null && exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || as_root=no
fi
if [ "$as_root" = no ] || ! command -v apt-get >/dev/null; then
    echo "etcd: not there, so its tests are skipped: sudo apt-get install etcd-server" >&2
    exit 1
fi

echo "etcd: installing etcd-server"
$as_root apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null 2>&1 || true
# In run level 1 Debian's packages do not start what they install.
$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends etcd-server >/dev/null 2>&1 || {
    echo "etcd: could not be installed, so its tests are skipped" >&2
    exit 1
}
if command -v systemctl >/dev/null; then
    $as_root systemctl disable --now etcd >/dev/null 2>&1 || true
else
    $as_root update-rc.d etcd disable >/dev/null 2>&1 || true
fi
