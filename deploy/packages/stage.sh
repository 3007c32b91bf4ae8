#!/bin/bash
# Puts together what the packages hold.
# usage: stage.sh BINARIES PAGES STAGE, with what make build has made and the directory that the build with the tag man
# has filled
set -euo pipefail
binaries=$1 pages=$2 stage=$3
here=$(dirname "$0")
rm -rf "$stage"
mkdir -p "$stage"/{man,completions}
cp "$binaries"/{evictd,evictctl} "$stage/"
cp "$here"/../evictd.{service,yaml} "$here/../../LICENSE" "$here"/{evictd.sysusers,postinstall.sh,preremove.sh,postremove.sh} "$stage/"
cp "$pages"/{evictd.bash,evictd.fish,_evictd,evictctl.bash,evictctl.fish,_evictctl} "$stage/completions/"
for page in "$pages"/*.8; do gzip -9n <"$page" >"$stage/man/$(basename "$page").gz"; done
chmod -R u=rwX,go=rX "$stage"
