#!/bin/sh
# Makes the root filesystem of the guest: Debian with systemd as its init and with
# containerd, and what test/suites/guest puts on top of that. It holds nothing of this
# checkout and is kept until a package, the kernel or this script has another version.
# usage: rootfs.sh DIR SUITE [stock], prints the path of the image of a suite of Debian in DIR. With stock it has the kernel of
# Debian's cloud images, for QEMU: beside the image are .vmlinuz and .initrd.
set -eu
suite=$2 name=$2${3:+-$3}
packages=systemd,systemd-sysv,dbus,containerd,runc,busybox-static,kmod,apt,earlyoom,systemd-oomd
if [ "${3:-}" = stock ]; then
	packages=$packages,linux-image-cloud-amd64 kernel=stock disk=vdb
else
	kernel=$(linux.uml --version) disk=ubdb
fi
key=$({
	cat "$0"
	echo "$kernel"
	apt-cache policy $(echo $packages | tr , ' ') | grep -E '^[a-z]|Candidate'
} | sha256sum | cut -c1-16)
image=$1/$name-$key.ext4
[ -e "$image" ] && echo "$image" && exit
mkdir -p "$1"
rm -f "$1/$name"-????????????????.* # of other versions
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
if [ "$kernel" = stock ]; then
	kernel=$(basename lib/modules/*)
	mv "boot/vmlinuz-$kernel" "${image%.ext4}.vmlinuz"
	rm -r boot/*
	# The disk's and its filesystem's modules, in the order in which they are loaded.
	init=$work/init
	mkdir -p "$init/bin" "$init/dev" "$init/proc" "$init/mnt"
	cp bin/busybox "$init/bin/"
	for module in virtio_pci virtio_blk ext4; do
		chroot . modprobe -S "$kernel" --show-depends "$module" | awk '/^insmod/ { print $2 }'
	done | awk '!seen[$0]++' | while read -r module; do
		n=$((${n:-0} + 1))
		case $module in
		*.xz) xz -dc ".$module" ;;
		*) cat ".$module" ;;
		esac >"$init/$(printf %02d "$n").ko"
	done
	cat >"$init/init" <<'X'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in /*.ko; do /bin/busybox insmod "$module"; done
/bin/busybox mount -o rw /dev/vda /mnt
/bin/busybox mount --move /dev /mnt/dev
/bin/busybox umount /proc
exec /bin/busybox switch_root /mnt /lib/systemd/systemd
X
	chmod 755 "$init/init"
	(cd "$init" && find . | cpio -o -H newc -R 0:0 --quiet) >"${image%.ext4}.initrd"
	udev=systemd-udevd.service # needs more of a processor that is emulated than it is worth
else
	# overlayfs is a module of this kernel.
	mkdir -p "lib/modules/$kernel/kernel/fs"
	cp -r "/usr/lib/uml/modules/$kernel/kernel/fs/overlayfs" "lib/modules/$kernel/kernel/fs/"
	quiet chroot . depmod "$kernel"
fi

cd etc/systemd/system
# Not in fstab: there is no udev that would tell systemd of the disk.
cat >checkout.service <<X
[Unit]
OnFailure=emergency.service
Before=containerd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -o ro /dev/$disk /checkout
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
	modprobe@fuse.service earlyoom.service systemd-oomd.service systemd-oomd.socket ${udev:-}; do
	ln -sf /dev/null $unit
done
cd /
truncate -s 1800M "$image.tmp"
quiet mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1 -d "$root" "$image.tmp"
mv "$image.tmp" "$image"
echo "$image"
