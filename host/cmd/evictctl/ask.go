package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/rundir"
)

const (
	statusTimeout = 5 * time.Second
	healthTimeout = time.Second
	// maxAnswerBytes exceeds a status with many plugins and their logs.
	maxAnswerBytes = 16 << 20
)

// hint says what the run directory shows of the daemon.
func hint(runDir string) string {
	switch err := rundir.Check(runDir); {
	case rundir.InUse(runDir):
		return fmt.Sprintf("an evictd has locked run directory %s: is it still starting?", runDir)
	case err != nil: // it may be another user's
		return "no evictd starts as this user: " + err.Error()
	default:
		return fmt.Sprintf("no evictd has locked run directory %s; is evictd running, with this configuration?", runDir)
	}
}

// addRunDir adds flags for the run directory of the daemon, and returns a function that evaluates
// them. With --run-dir the configuration is not read: it may have become invalid since the daemon's
// start.
func addRunDir(cmd *cobra.Command) func() (string, error) {
	if cmd.Flags().Lookup("config") == nil {
		cmd.Flags().String("config", "", "configuration file of the running evictd (default "+config.OwnFile+" if it exists)")
	}
	given := cmd.Flags().String("run-dir", "", "run directory of the running evictd (default that of the configuration)")
	return func() (string, error) {
		if *given != "" {
			return *given, nil
		}
		c, err := config.Load(cmd.Flags().Lookup("config").Value.String())
		if err != nil {
			return "", errors.Join(err, errors.New("with --run-dir the daemon is asked whatever the configuration says"))
		}
		return c.RunDir, nil
	}
}

// ask requests a page from the daemon with a run directory.
func ask(ctx context.Context, runDir, page string, timeout time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	socket := rundir.SocketOf(runDir)
	resp, err := httpserver.Ask(ctx, socket, page)
	if sent, ok := errors.AsType[*url.Error](err); ok { // its URL is made up
		err = sent.Err
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, hint(runDir))
	}
	defer func() { _ = resp.Body.Close() }()
	body := io.LimitReader(resp.Body, maxAnswerBytes)
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(body, 1<<10))
		if resp.StatusCode == http.StatusUnprocessableEntity { // loop.ErrNoThreshold explains what is expected
			return answerError{errors.New(string(bytes.TrimSpace(why)))}
		}
		return answerError{fmt.Errorf("get %s of %s: %s: %s", page, socket, resp.Status, bytes.TrimSpace(why))}
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return answerError{fmt.Errorf("get %s of %s: %w", page, socket, err)}
	}
	return nil
}

// saySick says on standard error why the evictd of the configuration in force is not ready, so that few
// records are not taken for a calm node. With --state-dir the records may be another node's.
func saySick(cmd *cobra.Command) {
	if cmd.Flags().Changed("state-dir") {
		return
	}
	c, err := config.Load(cmd.Flags().Lookup("config").Value.String())
	if err != nil {
		return // reported with the records
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
	defer cancel()
	resp, err := httpserver.Ask(ctx, rundir.SocketOf(c.RunDir), "/healthz")
	if err != nil {
		program.Say(cmd.ErrOrStderr(), "the daemon does not answer: "+hint(c.RunDir))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes)); resp.StatusCode != http.StatusOK {
		for line := range strings.Lines(string(text)) {
			program.Say(cmd.ErrOrStderr(), "the daemon is not ready: "+line)
		}
	}
}

// An answerError reports an unexpected response.
type answerError struct{ error }
