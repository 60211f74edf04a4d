#!/bin/sh
# Sees to it that Java 17 or later is there, which Spark needs: installs Debian's headless runtime
# if it may, else prints the one line that does.
set -eu

version() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
    if command -v "$java" >/dev/null 2>&1; then
        found=$(version "$java")
        [ "${found:-0}" -ge 17 ] && exit 0
    fi
done

package=
if command -v apt-get >/dev/null; then
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo -n"
        sudo -n true 2>/dev/null || as_root=no
    fi
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
    progress="python3 tools/progress.py java"
    [ "$as_root" = no ] || $progress $apt update || true
    for name in openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless; do
        # Not `apt-cache show`: it knows names that others mention and nobody offers.
        if apt-get -q -s install --no-install-recommends "$name" >/dev/null 2>&1; then
            package=$name
            break
        fi
    done
    if [ -n "$package" ] && [ "$as_root" != no ]; then
        echo "java: installing $package"
        $progress $apt install --no-install-recommends "$package"
        exit 0
    fi
fi
echo "java: Java 17 or later is needed for Spark: sudo apt-get install ${package:-default-jre-headless}" >&2
exit 1
