package main

import (
	"io"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/why/tell"
)

// besideTable shows how evictd and the kubelet work together, and the recommended kubelet settings
// as a file. It is empty if there is no kubelet to compare with.
func besideTable(b *inspect.Beside) []byte {
	if b == nil {
		return nil
	}
	var rows [][]string
	last := ""
	for _, f := range b.Findings {
		signal, state := f.Signal, "note"
		if signal == last {
			signal = tell.Same
		}
		if f.Fix {
			state = "fix"
		}
		rows = append(rows, []string{signal, f.About, state, f.Text})
		last = f.Signal
	}
	out := tell.FurtherTable([]string{"BESIDE THE KUBELET", "ABOUT", "STATE", "WHAT FOLLOWS"}, rows)
	out = append(out, "\n# The kubelet's settings that go with this configuration:\n"...)
	return append(out, b.YAML...)
}

// checkThreshold is a line of thresholdTable.
type checkThreshold struct {
	Signal         string `json:"signal"`
	Value          string `json:"value"`
	Hard           bool   `json:"hard"`
	GracePeriod    string `json:"gracePeriod,omitempty"`
	MinimumReclaim string `json:"minimumReclaim,omitempty"`
}

// writeJSON prints the results of check as one JSON object.
func writeJSON(w io.Writer, thresholds []policy.Threshold, b *inspect.Beside, errs []error, warnings, advice []string) error {
	said := struct {
		Thresholds []checkThreshold `json:"thresholds"`
		Beside     *inspect.Beside  `json:"beside,omitempty"`
		Errors     []string         `json:"errors,omitempty"`
		Warnings   []string         `json:"warnings,omitempty"`
		Advice     []string         `json:"advice,omitempty"`
	}{Thresholds: []checkThreshold{}, Beside: b, Warnings: warnings, Advice: advice}
	for _, t := range thresholds {
		row := checkThreshold{Signal: string(t.Signal), Value: t.Value.String(), Hard: t.Hard()}
		if !t.Hard() {
			row.GracePeriod = t.GracePeriod.String()
		}
		if t.MinReclaim != nil {
			row.MinimumReclaim = t.MinReclaim.String()
		}
		said.Thresholds = append(said.Thresholds, row)
	}
	for _, err := range errs {
		said.Errors = append(said.Errors, err.Error())
	}
	return printJSON(w, said)
}
