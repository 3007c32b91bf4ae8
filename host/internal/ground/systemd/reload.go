package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/nodefs"
)

// applyTimeout bounds the wait until systemd has applied drop-ins: it does so after it has answered a reload.
const applyTimeout = 10 * time.Second

// Reload makes systemd apply the drop-ins of units, also of those that run, and waits until the kernel has memory.min as
// systemd has it.
func Reload(ctx context.Context, node nodefs.FS, units []string) error {
	if _, err := systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, unit := range units {
		for {
			has, wants, err := protection(soon, node, unit)
			if err == nil && has == wants {
				break
			}
			select {
			case <-soon.Done():
				return cmp.Or(ctx.Err(), err, fmt.Errorf("%s: memory.min is %d, and systemd has not made it %d within %v of a reload", unit, has, wants, applyTimeout))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// protection returns memory.min of a unit's cgroup and what systemd has for it; the same if it has no cgroup.
func protection(ctx context.Context, node nodefs.FS, unit string) (has, wants int64, err error) {
	shown, err := systemctl(ctx, "show", "--property=ControlGroup,MemoryMin", unit)
	if err != nil {
		return 0, 0, err
	}
	properties := map[string]string{}
	for line := range strings.Lines(shown) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[name] = value
	}
	wants, unlimited := strconv.ParseInt(properties["MemoryMin"], 10, 64)
	h, err := node.MemoryHierarchy()
	if properties["ControlGroup"] == "" || unlimited != nil || err != nil {
		return 0, 0, err
	}
	p, err := nodefs.ReadProtection(h, properties["ControlGroup"])
	if errors.Is(err, nodefs.ErrGone) {
		return 0, 0, nil
	}
	return p.Min, wants - wants%int64(os.Getpagesize()), err
}

func systemctl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, printable.ClipText(string(out)))
	}
	return string(out), nil
}
