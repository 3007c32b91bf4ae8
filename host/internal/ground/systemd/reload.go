package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/nodefs"
)

// applyTimeout bounds the wait until systemd has applied drop-ins, applyLook is the interval of looks.
const applyTimeout, applyLook = 10 * time.Second, 50 * time.Millisecond

// Reload makes systemd apply the drop-ins of units, also of those that run, and waits until the kernel has memory.min as
// systemd has it. systemd 257 reads them at a reload, and writes memory.min when another unit of the slice starts.
func Reload(ctx context.Context, node nodefs.FS, units []string) error {
	if _, err := run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, unit := range units {
		for started := false; ; {
			cgroup, has, wants, err := protection(soon, node, unit)
			if err == nil && has == wants {
				break
			}
			if slice := sliceOf(cgroup); !started && slice != "" {
				started = true
				if _, err := run(soon, "systemd-run", "--quiet", "--collect", "--slice="+slice, "true"); err != nil {
					return err
				}
			}
			select {
			case <-soon.Done():
				return cmp.Or(ctx.Err(), err, fmt.Errorf("%s: memory.min is %d, and systemd has not made it %d within %v of a reload", unit, has, wants, applyTimeout))
			case <-time.After(applyLook):
			}
		}
	}
	return nil
}

// sliceOf returns the slice nearest to a cgroup, which may be it, "" for none.
func sliceOf(cgroup string) string {
	for ; strings.Trim(cgroup, "/") != ""; cgroup = path.Dir(cgroup) {
		if name := path.Base(cgroup); strings.HasSuffix(name, ".slice") {
			return name
		}
	}
	return ""
}

// protection returns a unit's cgroup, its memory.min and what systemd has for it; the same if it has no cgroup.
func protection(ctx context.Context, node nodefs.FS, unit string) (cgroup string, has, wants int64, err error) {
	shown, err := run(ctx, "systemctl", "show", "--property=ControlGroup,MemoryMin", unit)
	if err != nil {
		return "", 0, 0, err
	}
	properties := map[string]string{}
	for line := range strings.Lines(shown) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[name] = value
	}
	wants, unlimited := strconv.ParseInt(properties["MemoryMin"], 10, 64)
	h, err := node.MemoryHierarchy()
	if cgroup = properties["ControlGroup"]; cgroup == "" || unlimited != nil || err != nil {
		return "", 0, 0, err
	}
	p, err := nodefs.ReadProtection(h, cgroup)
	if errors.Is(err, nodefs.ErrGone) {
		return "", 0, 0, nil
	}
	return cgroup, p.Min, wants - wants%int64(os.Getpagesize()), err
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, printable.ClipText(string(out)))
	}
	return string(out), nil
}
