package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/shared/nodefs"
)

// maxDropIn is the size up to which a file may be a drop-in of evictd.
const maxDropIn = 4 << 10

func newProtectNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "protect-node",
		Short: "Keep the memory of evictd and of the container runtime resident, by drop-ins of systemd",
		Long: "Print drop-ins that keep the memory of evictd.service, of the container runtime's service and of the slices\n" +
			"above resident on a node that thrashes (memory.min of cgroup v2), with figures from this node. Run it while\n" +
			"the runtime and evictd run. A figure in force is never lowered. What it reads of the configuration is\n" +
			"rootDir and runtimeEndpoint.",
		Args: cobra.NoArgs,
	}
	write := cmd.Flags().Bool("write", false, "write the drop-ins below /etc/systemd/system, and reload systemd, which puts them in force at once")
	remove := cmd.Flags().Bool("remove", false, "remove the drop-ins that --write wrote, and reload systemd")
	cmd.MarkFlagsMutuallyExclusive("write", "remove")
	runWith(cmd, func(cmd *cobra.Command, cfg *config.Config) error {
		if *remove {
			return failed(removeDropIns(cmd.Context(), cfg.Node()))
		}
		return failed(protectNode(cmd.Context(), cfg, cmd.OutOrStdout(), *write))
	})
	return cmd
}

// protectNode prints the drop-ins. It writes all or, if one would replace a file of others, none.
func protectNode(ctx context.Context, c *config.Config, out io.Writer, write bool) error {
	node := c.Node()
	plan, err := systemd.Plan(ctx, node, c.RuntimeEndpoint)
	for _, u := range plan {
		file, text := u.DropIn()
		err = errors.Join(err, written(fmt.Fprintf(out, "# %s\n%s\n", file, text)))
		if there, absent := input.ReadFileSoon(node.Entry(file), maxDropIn); write && !errors.Is(absent, fs.ErrNotExist) && !bytes.HasPrefix(there, []byte(systemd.Mark)) {
			err = errors.Join(err, fmt.Errorf("%s: evictd protect-node has not written this file, and does not replace it; want it removed or renamed", node.Entry(file)))
		}
	}
	if err != nil || !write {
		return err
	}
	var units []string
	for _, u := range plan {
		file, text := u.DropIn()
		units = append(units, u.Name())
		at := node.Entry(file)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at+".new", []byte(text), 0o644)
		}
		if err == nil {
			err = os.Rename(at+".new", at)
		}
		if err != nil {
			return err
		}
	}
	return reloadSystemd(ctx, node, units)
}

// removeDropIns removes all drop-ins of evictd, and directories that are then empty.
func removeDropIns(ctx context.Context, node nodefs.FS) error {
	var units []string
	files, _ := filepath.Glob(node.Entry(systemd.Path("*")))
	for _, file := range files {
		if text, _ := input.ReadFileSoon(file, maxDropIn); !bytes.HasPrefix(text, []byte(systemd.Mark)) {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(file)) // it may have other files
		units = append(units, strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d"))
	}
	return reloadSystemd(ctx, node, units)
}

// applyTimeout bounds the wait until systemd has applied drop-ins: it does so after it has answered a reload.
const applyTimeout = 10 * time.Second

// reloadSystemd makes systemd apply the drop-ins of units, also of those that run, and waits until the kernel has memory.min
// as systemd has it.
func reloadSystemd(ctx context.Context, node nodefs.FS, units []string) error {
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
	return p.Min, wants, err
}

func systemctl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, printable.ClipText(string(out)))
	}
	return string(out), nil
}
