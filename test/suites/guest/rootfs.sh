#!/bin/sh
# Makes the root filesystem of the guest: Debian with systemd as its init and with
# containerd, and what test/suites/guest puts on top of that. It holds nothing of this
# checkout and is kept until a package, the kernel or this script has another version.
# usage: rootfs.sh DIR SUITE, prints the path of the image of a suite of Debian in DIR
set -eu
suite=$2
packages=systemd,systemd-sysv,dbus,containerd,runc,busybox-static,kmod,apt,earlyoom,systemd-oomd
kernel=$(linux.uml --version)
key=$({
	cat "$0"
	echo "$kernel"
	apt-cache policy $(echo $packages | tr , ' ') | grep -E '^[a-z]|Candidate'
} | sha256sum | cut -c1-16)
image=$1/$suite-$key.ext4
[ -e "$image" ] && echo "$image" && exit
mkdir -p "$1"
rm -f "$1/$suite"-*.ext4 # of other versions
echo "making the guest's root filesystem" >&2
work=$(mktemp -d)
root=$work/root log=$work/log
# Nothing is ever mounted below $work: mmdebstrap works in a directory and a mount
# namespace of its own, and hands over an archive.
trap 'rm -rf --one-file-system "$work" "$image.tmp"' EXIT
trap 'exit 1' INT TERM HUP
quiet() { "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }; }
quiet unshare --mount --propagation private mmdebstrap --mode=root --variant=essential --include=$packages \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
	--aptopt='Acquire::Languages "none"' --aptopt='Apt::Install-Recommends "false"' $suite "$work/root.tar"
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$work/root.tar"

cd "$root"
echo 0123456789abcdef0123456789abcdef >etc/machine-id
echo guest >etc/hostname
echo "127.0.0.1 localhost guest" >etc/hosts
: >etc/fstab
mkdir -p checkout etc/containerd etc/systemd/journald.conf.d
ln -sf /checkout/containerd.toml etc/containerd/config.toml
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >etc/systemd/journald.conf.d/guest.conf
ln -s busybox bin/kill # the unit reloads evictd with it
# overlayfs is a module of this kernel.
mkdir -p "lib/modules/$kernel/kernel/fs"
cp -r "/usr/lib/uml/modules/$kernel/kernel/fs/overlayfs" "lib/modules/$kernel/kernel/fs/"
quiet chroot . depmod "$kernel"

cd etc/systemd/system
# Not in fstab: there is no udev that would tell systemd of the disk.
cat >checkout.service <<'X'
[Unit]
OnFailure=emergency.service
Before=containerd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -o ro /dev/ubdb /checkout
X
cat >tests.service <<'X'
[Unit]
Requires=checkout.service
After=checkout.service containerd.service dbus.service
Wants=containerd.service dbus.service
[Service]
Type=oneshot
EnvironmentFile=/checkout/environment
ExecStart=/bin/sh -c '/checkout/guest.test -test.v -test.timeout=19m -test.run=^TestGuest && echo "guest: all passed"'
ExecStopPost=/bin/systemctl poweroff -ff
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity
X
# Instead of a shell that nobody would type into.
cat >emergency.service <<'X'
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'journalctl -b --no-pager | tail -n 40; systemctl poweroff -ff'
StandardOutput=tty
TTYPath=/dev/console
X
cat >tests.target <<'X'
[Unit]
Requires=multi-user.target
Wants=tests.service
AllowIsolate=yes
X
ln -sf tests.target default.target
# What a machine without a console, a clock or anybody to log in has no use for.
for unit in getty.target getty@.service serial-getty@.service console-getty.service systemd-logind.service \
	systemd-journal-flush.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
	systemd-random-seed.service systemd-timesyncd.service e2scrub_reap.service e2scrub_all.timer apt-daily.timer \
	apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer systemd-tmpfiles-clean.timer \
	systemd-remount-fs.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount \
	sys-kernel-debug.mount sys-kernel-tracing.mount systemd-sysusers.service systemd-firstboot.service \
	systemd-machine-id-commit.service systemd-hwdb-update.service ldconfig.service \
	systemd-journal-catalog-update.service systemd-update-done.service systemd-pstore.service \
	systemd-boot-system-token.service modprobe@configfs.service modprobe@drm.service modprobe@efi_pstore.service \
	modprobe@fuse.service earlyoom.service systemd-oomd.service systemd-oomd.socket; do
	ln -sf /dev/null $unit
done
cd /
truncate -s 1500M "$image.tmp"
quiet mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1 -d "$root" "$image.tmp"
mv "$image.tmp" "$image"
echo "$image"
