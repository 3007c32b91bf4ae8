package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/internal/why/store"
)

// recordNames resolves the decisions named on a command line, with a unique name for each among the
// files.
type recordNames struct {
	store.Resolver

	since time.Duration
	// with is a configuration that replaces the recorded one, empty for none.
	with    string
	records map[string]*decision.Decision
	config  *config.Config
}

// resolve returns args with records replaced by their names.
func (n *recordNames) resolve(args []string) ([]string, error) {
	n.records = map[string]*decision.Decision{}
	if n.with != "" {
		c, err := config.Load(n.with)
		if err != nil {
			return nil, err
		}
		n.config = &c
	}
	var out []string
	for _, arg := range args {
		if _, err := os.Stat(arg); err != nil {
			r, err := n.Find(arg)
			switch ext := filepath.Ext(arg); {
			case err == nil:
				arg = n.add(r)
			case ext == "" || strings.ContainsAny(ext, "0123456789"): // otherwise it is a file, whose absence is reported
				return nil, err
			}
		}
		out = append(out, arg)
	}
	if n.since == 0 {
		return out, nil
	}
	found, err := n.Newest(n.since)
	for _, r := range found {
		out = append(out, n.add(r))
	}
	return out, err
}

// add returns the name of a record among the files.
func (n *recordNames) add(r *decision.Decision) string {
	name := r.ID + ".record.json"
	n.records[name] = r
	return name
}

// read reads a record, or a file, which may also contain a record.
func (n *recordNames) read(name string) (trace *replay.Trace, err error) {
	r := n.records[name]
	if r == nil {
		r, _ = store.InFile(name) // otherwise its errors as a scenario are reported
	}
	if r == nil {
		trace, err = replay.Read(name)
	} else if trace, err = replay.FromRecord(r); err != nil {
		err = failure{err}
	}
	if err == nil && n.config != nil {
		replay.With(trace.Scenario, n.config)
	}
	return trace, err
}
