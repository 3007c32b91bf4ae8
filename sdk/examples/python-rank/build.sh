#!/bin/sh
# Bundles the example into one executable file: build.sh FILE
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp __main__.py evictd.py rank.py ../../../shared/proto/descriptor.binpb "$dir"
# The interpreter by its path: a plugin's environment has no PATH. -I: nothing of the user's.
/usr/bin/python3 -m zipapp "$dir" -p '/usr/bin/python3 -I' -o "$1"
chmod 0755 "$1"
