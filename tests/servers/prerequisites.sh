#!/usr/bin/env bash
# Names the tools that a command needs and this machine lacks; on Debian as root it installs them.
# It is not the place for versions of libraries: those are pinned in Cargo.lock, go.sum and pom.xml.
set -euo pipefail

packages=()
missing=()
for tool in "$@"; do
    case "$tool" in
        openssl-headers) [ -e /usr/include/openssl/ssl.h ] || { missing+=("OpenSSL's headers"); packages+=(libssl-dev); } ;;
        cargo | go) command -v "$tool" >/dev/null || { echo "error: $tool is missing
hint: install it by its own installer (rustup for cargo, the Go distribution for go); Debian's package is too old" >&2; exit 1; } ;;
        mvn) command -v mvn >/dev/null || { missing+=(mvn); packages+=(maven); } ;;
        java) command -v java >/dev/null || { missing+=(java); packages+=(openjdk-17-jre-headless); } ;;
        *) command -v "$tool" >/dev/null || { missing+=("$tool"); packages+=("$tool"); } ;;
    esac
done
[ ${#packages[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${packages[*]}" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}"
else
    echo "error: missing: ${missing[*]}
hint: sudo apt-get install ${packages[*]}" >&2
    exit 1
fi
