package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/decision/store"
	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/replay"
)

// recordEnding has a record stand among names of files.
const recordEnding = ".record.json"

// recordNames are the decisions that a command line names, by the name that each has among
// the files.
type recordNames struct {
	dir   func() (string, error)
	since time.Duration
	// with is a configuration that takes the place of the recorded one, empty for none.
	with    string
	records map[string]*decision.Decision
	config  *config.Config
}

// find returns args with the names of records in the place of what names them.
// Which records are damaged is told.
func (n *recordNames) find(args []string, told io.Writer) ([]string, error) {
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
		_, err := os.Stat(arg)
		if err == nil || slices.Contains(scenarioEndings, filepath.Ext(strings.TrimSuffix(arg, ".gz"))) {
			out = append(out, arg)
			continue
		}
		r, err := findRecord(arg, n.dir, told)
		switch {
		case err == nil:
			out = append(out, n.add(r))
		case filepath.Ext(arg) != "" && !strings.ContainsAny(filepath.Ext(arg), "0123456789"): // another file, which is told
			out = append(out, arg)
		default:
			return nil, err
		}
	}
	if n.since == 0 {
		return out, nil
	}
	in, err := n.dir()
	if err != nil {
		return nil, err
	}
	var damaged []error
	err = store.Each(in, func(e *store.Entry) error {
		if e.Kind != decision.KindEviction || time.Since(e.Time) > n.since {
			return nil
		}
		r, err := e.Decision()
		if err != nil {
			damaged = append(damaged, err)
			return nil
		}
		out = append(out, n.add(r))
		return nil
	})
	if err := errors.Join(append(damaged, err)...); err != nil {
		say(told, err.Error())
	}
	if len(out) == 0 {
		return nil, failure{fmt.Errorf("--since: no eviction in %s is as new as %v", in, n.since)}
	}
	return out, nil
}

func (n *recordNames) add(r *decision.Decision) string {
	name := r.ID + recordEnding
	n.records[name] = r
	return name
}

// read reads a record or a file, which may have a record as well.
func (n *recordNames) read(name string) (*replay.Trace, error) {
	trace, err := n.recorded(name)
	if err == nil && trace == nil {
		trace, err = replay.Read(name)
	}
	if err == nil && n.config != nil {
		replay.With(trace.Scenario, n.config)
	}
	return trace, err
}

// recorded is the scenario of a record, nil if the name is of a file that has none.
func (n *recordNames) recorded(name string) (*replay.Trace, error) {
	r := n.records[name]
	if r == nil && filepath.Ext(name) == ".json" {
		if data, err := input.ReadFileSoon(name, maxRecordFile); err == nil {
			r, _ = decision.Decode(data) // else it is told what is wrong with it as a scenario
		}
	}
	if r == nil {
		return nil, nil //nolint:nilnil // as it says
	}
	trace, err := replay.FromRecord(r)
	if err != nil {
		return nil, failure{err}
	}
	return trace, nil
}
