#!/bin/sh
# dpkg: configure [VERSION BEFORE]; rpm: 1 for an installation, 2 for an upgrade.
set -e
config=/etc/evictd/evictd.yaml
booted() { [ -d /run/systemd/system ]; }
case "$1" in configure | 1 | 2) ;; *) exit 0 ;; esac
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers evictd.conf || echo "evictd: no user evictd-plugin was made" >&2
fi
booted && systemctl daemon-reload
# An upgrade of one that runs: kills in flight and conditions are in /run/evictd.
if booted && systemctl --quiet is-active evictd.service; then
	systemctl restart evictd.service || echo "evictd: the new version does not start: systemctl status evictd" >&2
	exit 0
fi
booted && systemctl --quiet is-enabled evictd.service 2>/dev/null && exit 0
echo "evictd: installed and not started. What evictctl check says of this node with $config:"
evictctl check --config "$config" --start-plugins=false 2>&1 | sed 's/^/  /' || :
echo "evictd: edit $config until no line of it begins with evictd:, then: systemctl enable --now evictd"
