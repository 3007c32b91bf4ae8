#!/bin/bash
# test/tools/strange.sh COMMAND... runs a command, as root, where another evictd seems to be: the directories that evictd has by
# default hold what no test can use, and cannot be written to, so that a test that does not name its own fails. Only the command
# sees that: the directories are mounts of its own, in memory.
set -euo pipefail
dirs=(/run/evictd /etc/evictd /var/lib/evictd /usr/libexec/evictd)
if [ "$1" != --inside ]; then
	made=()
	trap 'rmdir "${made[@]}" 2>/dev/null || :' EXIT
	for dir in "${dirs[@]}"; do
		[ -d "$dir" ] || { mkdir "$dir" && made+=("$dir"); }
	done
	unshare --mount --propagation private "$0" --inside "$@"
	exit
fi
shift
for dir in "${dirs[@]}"; do
	mount -t tmpfs -o mode=0755 strange "$dir"
done
mkdir /run/evictd/{plugins,kills} /etc/evictd/manifests /var/lib/evictd/records /usr/libexec/evictd/plugins
echo "another evictd's" | tee /run/evictd/{lock,pods.json,conditions.json,kills/1.json} /etc/evictd/{evictd.yaml,manifests/pod.yaml} \
	/var/lib/evictd/records/20260101T000000.000000000Z.json.gz /usr/libexec/evictd/plugins/memory >/dev/null
for dir in "${dirs[@]}"; do
	mount -o remount,ro "$dir"
done
exec "$@"
