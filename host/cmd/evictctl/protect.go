package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
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
			return command.Failed(removeDropIns(cmd.Context(), cfg.Node()))
		}
		return command.Failed(protectNode(cmd.Context(), cfg, cmd.OutOrStdout(), *write))
	})
	return cmd
}

// protectNode prints the drop-ins. It writes all or, if one would replace a file of others, none.
func protectNode(ctx context.Context, c *config.Config, out io.Writer, write bool) error {
	node := c.Node()
	plan, err := systemd.Plan(ctx, node, c.RuntimeEndpoint)
	for _, u := range plan {
		file, text := u.DropIn()
		err = errors.Join(err, command.Written(fmt.Fprintf(out, "# %s\n%s\n", file, text)))
		if there, absent := input.ReadFileSoon(node.Entry(file), maxDropIn); write && !errors.Is(absent, fs.ErrNotExist) && !bytes.HasPrefix(there, []byte(systemd.Mark)) {
			err = errors.Join(err, fmt.Errorf("%s: evictctl protect-node has not written this file, and does not replace it; want it removed or renamed", node.Entry(file)))
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
	return systemd.Reload(ctx, node, units)
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
	return systemd.Reload(ctx, node, units)
}
