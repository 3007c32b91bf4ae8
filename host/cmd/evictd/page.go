package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/why/page"
	"github.com/evictd/evictd/host/internal/why/tell/nodeview"
	"github.com/evictd/evictd/shared/eviction"
)

func newPage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Show the node and its evictions in a browser",
		Long: "Serve pages about the node to a browser on this machine, until Ctrl-C: what the running evictd sees now, its\n" +
			"evictions, why each pod went, and who would go. With --records the pages are of the records in a directory,\n" +
			"such as those of a ticket, and no evictd is asked. The address is printed, and has a part that cannot be guessed.",
		Args: cobra.NoArgs,
	}
	dir, runDir := addRecordsDir(cmd), addRunDir(cmd)
	records := cmd.Flags().String("records", "", "directory of records to show without a running evictd, as copied from records/ of a stateDir")
	address := cmd.Flags().String("address", "127.0.0.1:0", "address of the loopback device to serve on, with port 0 for any free one")
	untilEOF := cmd.Flags().Bool("until-eof", false, "end with the standard input, as of a shell that is gone")
	with := cmd.Flags().String("with", "", "directory of plugin executables whose order Rank shows beside, as evictd rank --with")
	cmd.MarkFlagsMutuallyExclusive("records", "state-dir")
	cmd.MarkFlagsMutuallyExclusive("records", "with")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if host, _, err := net.SplitHostPort(*address); err != nil || !net.ParseIP(host).IsLoopback() {
			return fmt.Errorf("--address: %q: want an address of the loopback device such as 127.0.0.1:8080: the pages are for this machine alone", *address)
		}
		o := page.Options{Records: *records}
		if _, err := os.Stat(*records); *records != "" && err != nil {
			return fmt.Errorf("--records: %q: %w, want a directory of records", *records, errors.Unwrap(err))
		}
		if *records == "" {
			at, errRun := runDir()
			in, errDir := dir()
			if err := errors.Join(errRun, errDir, checkWith(*with)); err != nil {
				return err
			}
			o = pageOf(at, in)
			if *with != "" {
				o.Other = func(ctx context.Context, ranking *decision.Decision) (*decision.Decision, error) {
					return rankWith(ctx, *with, ranking, sayOnce(cmd.ErrOrStderr()))
				}
			}
		}
		ctx, stop := untilInterrupted(cmd.Context())
		defer stop()
		if *untilEOF {
			go func() { // it ends with the program
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				stop()
			}()
		}
		endpoint, err := httpserver.Listen(ctx, httpserver.Options{Key: "--address", Address: *address, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return failure{err}
		}
		site := page.New(endpoint.Addr(), o)
		if err := written(fmt.Fprintln(cmd.OutOrStdout(), site.URL())); err != nil {
			return errors.Join(err, endpoint.Close())
		}
		return failed(endpoint.Serve(ctx, site))
	}
	return cmd
}

// pageOf shows the evictd in a run directory and the records in another one.
func pageOf(at, records string) page.Options {
	return page.Options{
		Records: records,
		Status: func(ctx context.Context) (status *nodeview.View, err error) {
			return status, ask(ctx, at, "/status", statusTimeout, &status)
		},
		Ranking: func(ctx context.Context, s eviction.Signal) (*decision.Decision, error) {
			return askRanking(ctx, at, s)
		},
	}
}
