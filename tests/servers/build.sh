#!/usr/bin/env bash
# Builds the real servers of the integration tests from their package registries, once, into a cache outside the
# checkout; the last line that it prints is that folder. Safe to run twice at once, and it goes on where it was ended.
# Arguments name the servers that are wanted; without any, all are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- nats-server etcd kafka kube-apiserver
tools=(go openssl flock)
case " $* " in *" kafka "*) tools+=(java mvn) ;; esac
"$here/prerequisites.sh" "${tools[@]}"

hash=$(cd "$here" && cat build.sh etcd/* kafka/* kube-apiserver/* nats-server/* | sha256sum | cut -c1-16)
cache="${CRIER_SERVERS:-$HOME/.cache/crier-servers}/$hash"
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -n 9 || { echo "another build is under way; waiting for it" >&2; flock 9; }

number=0
total=$#
wanted=" $* "
# Builds into a name that nobody looks for, then renames: a server that is there is whole.
build() {
    local name=$1
    shift
    case "$wanted" in *" $name "*) ;; *) return 0 ;; esac
    number=$((number + 1))
    [ ! -e "$cache/$name" ] || return 0
    echo "[$number/$total] $name: building ..." >&2
    local began=$SECONDS work
    work=$(mktemp -d "$cache/.building-$name.XXXXXX")
    cp -r "$here/$name" "$work/source"
    if ! (cd "$work/source" && "$@" "$work/result") >"$work/log" 2>&1; then
        tail -n 40 "$work/log" >&2
        echo "error: $name did not build; the whole log: $work/log" >&2
        exit 1
    fi
    mv "$work/result" "$cache/$name"
    rm -rf "$work"
    echo "[$number/$total] $name: built in $((SECONDS - began)) s" >&2
}

nats_server() { go build -trimpath -o "$1" github.com/nats-io/nats-server/v2; }
etcd() { go build -trimpath -o "$1" go.etcd.io/etcd/server/v3; }
kafka() { mvn -q -B dependency:copy-dependencies "-DoutputDirectory=$1"; }
kube_apiserver() {
    local version=k8s.io/component-base/version
    go build -trimpath -ldflags "-s -w -X $version.gitVersion=v1.36.3 -X $version.gitMajor=1 -X $version.gitMinor=36" \
        -o "$1" k8s.io/kubernetes/cmd/kube-apiserver
}

# What an ended run left half built.
rm -rf "$cache"/.building-*
build nats-server nats_server
build etcd etcd
build kafka kafka
build kube-apiserver kube_apiserver
echo "$cache"
