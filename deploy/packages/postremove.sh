#!/bin/sh
# dpkg: remove, purge, or upgrade VERSION; rpm: 0 for a removal, 1 for an upgrade. rpm knows no purge.
set -e
case "$1" in remove | purge | 0) ;; *) exit 0 ;; esac
# What evictctl protect-node --write has written.
[ "$1" != purge ] || for dropin in /etc/systemd/system/*.d/50-evictd.conf; do
	grep -qs '^# evictctl protect-node --write made this file' "$dropin" || continue
	rm "$dropin"
	rmdir "${dropin%/*}" 2>/dev/null || : # others may have files there
done
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl --quiet reset-failed evictd.service 2>/dev/null || :
fi
rm -rf /run/evictd
[ "$1" = purge ] || exit 0
rm -rf /etc/evictd /usr/libexec/evictd /var/lib/evictd
if getent passwd evictd-plugin >/dev/null 2>&1 && command -v userdel >/dev/null 2>&1; then
	userdel evictd-plugin || :
fi
