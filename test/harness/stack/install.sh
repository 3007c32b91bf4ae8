#!/bin/sh
# Installs what the tests and the demo with real containers need, if it is missing.
# usage: install.sh [--uml] [--guest] [--qemu] [--python] [--prometheus] [--browser]
#   --uml: also User-Mode Linux, for the tests on a cgroup v2 kernel
#   --guest: also what makes the root filesystem of a guest with systemd, and a kernel with PSI
#   --qemu: also QEMU, for a guest with Debian's own kernel
#   --python: also Python's gRPC and protobuf, for the example plugin in Python
#   --prometheus: also Prometheus, for the alerts and the dashboard
#   --browser: also Chromium, and what draws a picture without it, for the pages of evictctl explain
set -eu

missing=
need() { # need PACKAGE COMMAND
	command -v "$2" >/dev/null 2>&1 || missing="$missing $1"
}
PATH=$PATH:/usr/sbin:/sbin
need containerd containerd
need runc runc
need busybox-static busybox
need gcc gcc
need xfsprogs mkfs.xfs
need e2fsprogs mkfs.ext4
ls /usr/lib/*/libc.a >/dev/null 2>&1 || missing="$missing libc6-dev" # for -static
for option; do
	case $option in
	--uml) need user-mode-linux linux.uml ;;
	--guest)
		need mmdebstrap mmdebstrap
		need make make
		need patch patch
		need flex flex
		need bison bison
		need bc bc
		need xz-utils xz
		ls /usr/src/linux-source-[0-9]*.tar.xz >/dev/null 2>&1 || missing="$missing linux-source"
		;;
	--qemu)
		need qemu-system-x86 qemu-system-x86_64
		need cpio cpio
		;;
	--prometheus) need prometheus promtool ;;
	--browser)
		need chromium chromium
		need librsvg2-bin rsvg-convert
		need npm npm
		;;
	--python)
		need openssl openssl
		for module in grpcio:grpc protobuf:google.protobuf; do
			/usr/bin/python3 -c "import ${module#*:}" 2>/dev/null || missing="$missing python3-${module%%:*}"
		done
		;;
	esac
done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "missing:$missing; run this as root to install them" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "missing:$missing; this machine has no apt-get, install them by hand" >&2
	exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists of a fresh machine are empty; those of an old one may name versions that are gone.
if ! { apt-get -q update && apt-get -qy install --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "cannot install$missing; the end of apt-get's output is above" >&2
	exit 1
fi
