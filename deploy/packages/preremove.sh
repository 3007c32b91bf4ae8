#!/bin/sh
# dpkg: remove, or upgrade VERSION; rpm: 0 for a removal, 1 for an upgrade.
set -e
config=/etc/evictd/evictd.yaml
case "$1" in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	systemctl --quiet disable --now evictd.service || :
fi
# In a cluster what evictd has written to the node's object goes, too, also what a former configuration had it write. A
# removal does not fail because the API server is away, or has never let evictd write there.
if grep -Eqs '^mode:[[:space:]]*["'\'']?kubernetes' "$config"; then
	timeout 60 evictctl uninstall-node --config "$config" ||
		echo "evictd: conditions and taints below evictd.io/ may be left on the node's object: see kubectl describe node" >&2
fi
