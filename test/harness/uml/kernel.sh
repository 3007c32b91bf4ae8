#!/bin/sh
# Makes a kernel for User-Mode Linux that has what Debian's lacks: PSI, and disks with the speed of real ones
# (src/disk-speed.patch). Debian's sources and configuration, without modules. It is kept until a version or this script changes.
# usage: kernel.sh DIR, prints the path of the kernel in DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
config=/usr/share/doc/user-mode-linux/config.gz
release=$(linux.uml --version)
series=$(echo "$release" | cut -d. -f1-2)
source=/usr/src/linux-source-$series.tar.xz
key=$(cat "$0" "$here/src/disk-speed.patch" "$config" "$source" | sha256sum | cut -c1-16)
kernel=$1/linux-$release-$key
[ -x "$kernel" ] && echo "$kernel" && exit
mkdir -p "$1"
rm -f "$1"/linux-* # of other versions
echo "making the guest's kernel" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }; }
mkdir "$work/linux"
cd "$work/linux"
quiet tar --strip-components=1 -xf "$source"
quiet patch -p1 -i "$here/src/disk-speed.patch"
zcat "$config" | grep -v '=m$' >.config
quiet scripts/config -e PSI -d PSI_DEFAULT_DISABLED -e OVERLAY_FS \
	-d MODULES -d DEBUG_INFO -d UML_NET -d NETFILTER -d SECURITY -d XFS_FS -d BTRFS_FS -d JFS_FS -d REISERFS_FS -d MD
quiet make ARCH=um olddefconfig
quiet make ARCH=um -j2 linux
strip -o "$kernel.tmp" linux
mv "$kernel.tmp" "$kernel"
echo "$kernel"
