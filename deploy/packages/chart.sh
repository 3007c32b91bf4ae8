#!/bin/bash
# chart.sh VERSION IMAGE TO packs the chart of a version, which has the digest of the image in an OCI archive, into a directory:
# the same bytes each time. SOURCE_DATE_EPOCH is the date of its files.
set -euo pipefail
version=$1 image=$(realpath "$2") to=$(realpath "$3")
cd "$(dirname "$0")/.."
digest=$(tar -xOf "$image" index.json | grep -oEm 1 'sha256:[0-9a-f]{64}')
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -r chart "$dir/evictd"
sed -i "s|^  digest: \"\"|  digest: $digest|" "$dir/evictd/values.yaml"
sed -i "s|^version: .*|version: $version|; s|^appVersion: .*|appVersion: $version|; s|@DIGEST|@$digest|" "$dir/evictd/Chart.yaml"
tar -C "$dir" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - evictd | gzip -9n >"$to/evictd-$version.tgz"
