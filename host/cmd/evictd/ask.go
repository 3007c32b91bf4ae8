package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/rundir"
)

const (
	statusTimeout = 5 * time.Second
	// maxAnswerBytes exceeds a status with many plugins and their logs.
	maxAnswerBytes = 16 << 20
)

// A daemonAt locates the running daemon. runDir is empty if no configuration was read.
type daemonAt struct{ address, runDir string }

// hint says what the run directory shows of the daemon.
func (at daemonAt) hint() string {
	switch err := rundir.Check(at.runDir); {
	case at.runDir == "":
		return "is evictd running, with this listenAddress?"
	case rundir.InUse(at.runDir):
		return fmt.Sprintf("an evictd has locked run directory %s, with this listenAddress?", at.runDir)
	case err != nil: // it may be another user's
		return "no evictd starts as this user: " + err.Error()
	default:
		return fmt.Sprintf("no evictd has locked run directory %s; is evictd running, with this configuration?", at.runDir)
	}
}

// addDaemonAddress adds flags for the daemon's address, and returns a function that evaluates them.
func addDaemonAddress(cmd *cobra.Command) func() (daemonAt, error) {
	if cmd.Flags().Lookup("config") == nil {
		cmd.Flags().String("config", "", "configuration file of the running evictd (default "+config.OwnFile+" if it exists)")
	}
	given := cmd.Flags().String("listen-address", "", "where the running evictd listens (default that of the configuration)")
	return func() (daemonAt, error) {
		if *given != "" {
			return daemonAt{address: *given}, nil
		}
		c, err := config.Load(cmd.Flags().Lookup("config").Value.String())
		return daemonAt{c.ListenAddress, c.RunDir}, err
	}
}

func ask(ctx context.Context, at daemonAt, page string, timeout time.Duration, into any) error {
	host, port, err := net.SplitHostPort(at.address)
	switch {
	case err != nil:
		return err
	case port == "0":
		return errors.New(`listenAddress has port 0, which the daemon chose at its start; want --listen-address with the one of its log line "evictd ready"`)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := httpserver.Ask(ctx, host, port, page)
	if err != nil {
		return fmt.Errorf("%w; %s", err, at.hint())
	}
	defer func() { _ = resp.Body.Close() }()
	body := io.LimitReader(resp.Body, maxAnswerBytes)
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(body, 1<<10))
		if bytes.HasPrefix(why, []byte(loop.ErrNoThreshold.Error())) { // it explains what is expected
			return answerError{errors.New(string(bytes.TrimSpace(why)))}
		}
		return answerError{fmt.Errorf("get %s: %s: %s", resp.Request.URL, resp.Status, bytes.TrimSpace(why))}
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return answerError{fmt.Errorf("get %s: %w", resp.Request.URL, err)}
	}
	return nil
}

// An answerError reports an unexpected response.
type answerError struct{ error }
