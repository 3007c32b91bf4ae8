package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/supervisor"
)

const (
	statusTimeout = 5 * time.Second
	// maxStatusBytes is more than a status with many plugins and their logs.
	maxStatusBytes = 16 << 20
)

func newPlugins() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "Show the plugins of the running daemon",
		Long:  "Ask the daemon that listens on listenAddress for its plugins. Takes the flags of run.",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newScaffold())
	flags := config.AddFlags(cmd.Flags())
	asJSON := cmd.Flags().Bool("json", false, "print what the daemon said of its plugins")
	cmd.AddCommand(newVerify())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load()
		if err != nil {
			return err
		}
		raw, err := askPlugins(cmd.Context(), cfg.ListenAddress)
		if err != nil {
			return failure{err}
		}
		out, err := pluginTable(raw)
		if *asJSON && err == nil {
			out, err = indented(raw)
		}
		if err != nil {
			return failure{fmt.Errorf("status of %s: %w", cfg.ListenAddress, err)}
		}
		return written(cmd.OutOrStdout().Write(out))
	}
	return cmd
}

// askPlugins returns the plugins of the daemon that listens on address, as JSON.
func askPlugins(ctx context.Context, address string) (json.RawMessage, error) {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return nil, err
	case port == "0":
		return nil, errors.New(`listenAddress has port 0, which the daemon chose at its start; want --listen-address with the one of its log line "evictd ready"`)
	case host == "" || host == "0.0.0.0":
		host = "127.0.0.1"
	case host == "::":
		host = "::1"
	}
	url := "http://" + net.JoinHostPort(host, port) + "/status"
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w; is evictd running, with this listenAddress?", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s, want the status of evictd; does something else listen there?", url, resp.Status)
	}
	var status struct {
		Plugins json.RawMessage `json:"plugins"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatusBytes)).Decode(&status); err != nil {
		return nil, fmt.Errorf("get %s: %w, want the status of evictd; does something else listen there?", url, err)
	}
	if status.Plugins == nil {
		return nil, fmt.Errorf("get %s: no plugins in the answer, want the status of evictd; does something else listen there?", url)
	}
	return status.Plugins, nil
}

func indented(raw json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// pluginTable has a line for each plugin and signal; what is of the plugin
// stands in its first line.
func pluginTable(raw json.RawMessage) ([]byte, error) {
	var plugins []supervisor.Status
	if err := json.Unmarshal(raw, &plugins); err != nil {
		return nil, err
	}
	rows := [][]string{{"PLUGIN", "STATE", "PID", "VERSION", "RESTARTS", "SIGNAL", "OFFERS", "IN CHARGE OF", "WHY"}}
	for _, p := range plugins {
		if len(p.Signals) == 0 {
			p.Signals = []supervisor.Served{{}}
		}
		pid := ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		own := []string{p.Name, string(p.State), pid, p.Version, strconv.Itoa(p.Restarts)}
		why := cmp.Or(p.Reason, p.LastError)
		for _, s := range p.Signals {
			row := slices.Concat(own, []string{string(s.Signal), strings.Join(s.Offers, ","), strings.Join(s.InCharge, ","), why})
			rows = append(rows, row)
			own, why = []string{same, same, same, same, same}, same
		}
	}
	return table(rows), nil
}
