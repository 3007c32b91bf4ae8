#!/bin/sh
# Bundles the example into one executable file: build.sh FILE
set -eu
mkdir -p "$(dirname "$1")"
out=$(realpath "$1")
cd "$(dirname "$0")"
# A copy of the example has it beside this file.
descriptor=descriptor.binpb
[ -e $descriptor ] || descriptor=../../../shared/proto/$descriptor
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp __main__.py evictd.py rank.py $descriptor "$dir"
# The interpreter by its path: a plugin's environment has no PATH. -I: nothing of the user's.
/usr/bin/python3 -m zipapp "$dir" -p '/usr/bin/python3 -I' -o "$out"
chmod 0755 "$out"
