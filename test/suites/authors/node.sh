# What a reader's shell and node are to the commands of the document. Runs before
# them, in a mount namespace of its own.
set -euo pipefail

# become_a_node makes this a node with evictd as deploy/ has it, in dry run, with the
# memory plugin and the fake container runtime at $RUNTIME_SOCKET. What it writes to
# /etc, /usr/libexec, /run and /var/lib is in memory, and nobody else sees it; it does not
# see what the machine has of evictd there.
become_a_node() {
	[ -z "${NODE_DIR:-}" ] || return 0
	NODE_DIR=$(dirname "$EVICTD_LOG")/node
	mkdir "$NODE_DIR"
	mount -t tmpfs -o mode=0755 node "$NODE_DIR"
	for dir in /etc /usr/libexec /run /var/lib; do
		mkdir -p "$NODE_DIR$dir/upper" "$NODE_DIR$dir/work"
		mount -t overlay -o "lowerdir=$dir,upperdir=$NODE_DIR$dir/upper,workdir=$NODE_DIR$dir/work" overlay "$dir"
		rm -rf "$dir/evictd"
	done
	mkdir -p /etc/evictd/manifests /usr/libexec/evictd/plugins /run/containerd "$NODE_DIR/bin"
	mount --bind "$(dirname "$RUNTIME_SOCKET")" /run/containerd
	install -m 0755 "$EVICTD/bin/plugins/memory" /usr/libexec/evictd/plugins/memory
	cat "$EVICTD/deploy/evictd.yaml" >/etc/evictd/evictd.yaml

	evictd run --config /etc/evictd/evictd.yaml 2>"$EVICTD_LOG" &
	NODE_EVICTD=$!
	# As systemd would: by ExecReload of deploy/evictd.service.
	printf '#!/bin/sh\n[ "$*" = "reload evictd" ] && kill -HUP %d\n' "$NODE_EVICTD" >"$NODE_DIR/bin/systemctl"
	chmod 0755 "$NODE_DIR/bin/systemctl"
	PATH=$NODE_DIR/bin:$PATH
	for _ in $(seq 100); do
		why=$(evictctl plugins --config /etc/evictd/evictd.yaml 2>&1) && return 0
		command sleep 0.1
	done
	printf '%s\nlog of evictd:\n' "$why" >&2
	cat "$EVICTD_LOG" >&2
	return 1
}

# The document gives evictd two seconds. A machine that runs other tests beside this
# one needs more.
sleep() { command sleep "$((3 * $1))"; }

end_node() {
	if [ -n "${NODE_EVICTD:-}" ]; then
		kill "$NODE_EVICTD" && wait "$NODE_EVICTD"
	fi
}
trap end_node EXIT
