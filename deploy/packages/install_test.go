package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// story is an operator's, in a root of its own: an overlay over this machine's, in a
// mount namespace of its own, which nobody boots. What is there is listed before and after.
const story = `
set -eu
work=$1 deb=$2
mount -t tmpfs none "$work"
mkdir "$work/machine" "$work/hidden" "$work/work" "$work/upper" "$work/work2" "$work/root"
# The machine may have directories of evictd, of which the package is not to know.
mount -t overlay none -o "lowerdir=/,upperdir=$work/hidden,workdir=$work/work" "$work/machine"
(cd "$work/machine" && rm -rf etc/evictd usr/libexec/evictd var/lib/evictd run/evictd)
mount -t overlay none -o "lowerdir=$work/machine,upperdir=$work/upper,workdir=$work/work2" "$work/root"
cp "$deb" "$work/root/evictd.deb"
mkdir -p "$work/root/proc"
mount -t proc none "$work/root/proc"
cd "$work/root"
inside() { chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# What the overlay has that the machine has not, or has not any more, and whose users are others. Not what dpkg, the log
# and the tools for users keep for themselves. The machine below goes on living meanwhile: it is not listed.
left() {
	(cd "$work/upper" && find . \( -path ./dev -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/cache \) -prune -o \
		! -path './etc/*-' ! -path ./etc/.pwd.lock -print) | while read -r name; do
		if [ -c "$work/upper/$name" ]; then echo "gone: $name"; elif [ ! -e "$work/machine/$name" ]; then echo "new: $name"; fi
	done
	for file in /etc/passwd /etc/group; do diff "$work/machine$file" ".$file" || :; done
}
mknod -m 666 dev/null c 1 3 2>/dev/null || :
left >"$work/before"
echo "== install"
inside dpkg -i /evictd.deb 2>&1
inside sh -c 'test -x /usr/bin/evictd && evictd version && evictctl version'
inside sh -c 'ls -ld /usr/libexec/evictd/plugins; man=/usr/share/man/man8/evictctl-check.8.gz; test -e $man || test ! -d /usr/share/man/man8 || ls /usr/share/man/man8 | grep evictctl || echo "no pages: this system leaves them out"'
echo "== there"
left
echo "== edited"
echo "# by the operator" >>etc/evictd/evictd.yaml
inside dpkg -i /evictd.deb 2>&1
grep -c "by the operator" etc/evictd/evictd.yaml
echo "== remove"
inside dpkg --remove evictd 2>&1
test ! -e usr/bin/evictd && test ! -e usr/bin/evictctl
grep -c "by the operator" etc/evictd/evictd.yaml
echo "== purge"
inside dpkg --purge evictd 2>&1
left >"$work/after"
echo "== left"
diff "$work/before" "$work/after" && echo nothing
`

func TestWhatIsInstalledIsTakenOffWithoutATrace(t *testing.T) {
	deb := dist(t, "evictd_*_amd64.deb")
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("mounts: run make packages as root")
	}
	script := filepath.Join(t.TempDir(), "story.sh")
	if err := os.WriteFile(script, []byte(story), 0o600); err != nil {
		t.Fatal(err)
	}
	said := run(t, ".", "unshare", "--mount", "--propagation", "private", "sh", script, t.TempDir(), deb)
	t.Logf("%s", said)
	for part, want := range map[string]string{
		"== install": "installed and not started",
		"== there":   "new: ./usr/libexec/evictd/plugins/memory\n",
		"== edited":  "\n1",
		"== remove":  "\n1",
		"== left":    "nothing\n",
	} {
		_, after, _ := strings.Cut(said, part)
		section, _, _ := strings.Cut(after, "\n== ")
		if !strings.Contains(section, want) {
			t.Errorf("%s does not have %q:\n%s", part, want, section)
		}
	}
}
