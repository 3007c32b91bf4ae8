package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/decision/store"
	"github.com/evictd/evictd/host/internal/decision/whatif"
	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/tell"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POD|UID|RECORD",
		Short: "Tell why a pod was evicted, and what would have spared it",
		Long: "Tell why a pod was evicted: why then, what was tried before, why this pod and not another one, what would\n" +
			"have spared it and who would have gone instead, and what followed. The pod is named by namespace/name, name\n" +
			"or uid, and its last eviction is told; or the decision by the id of its record, or a file with one in JSON.\n" +
			"evictd need not run, but for --now: how far each threshold is from being acted on, and who would go then.",
	}
	dir := addRecordsDir(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the record as JSON, with what would have spared the pod")
	asSVG := cmd.Flags().Bool("svg", false, "print a picture of the signal before the decision, and of what followed")
	now := cmd.Flags().Bool("now", false, "ask the running evictd for each threshold what is missing until it acts, and who would go")
	address := addDaemonAddress(cmd)
	cmd.MarkFlagsMutuallyExclusive("json", "svg")
	cmd.MarkFlagsMutuallyExclusive("now", "svg")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *now {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *now {
			return explainNow(cmd, address, *asJSON)
		}
		r, err := findRecord(args[0], dir, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			return explainJSON(cmd.OutOrStdout(), r)
		case *asSVG:
			picture, err := tell.SVG(r)
			if err != nil {
				return fmt.Errorf("%s: %w", r.ID, err)
			}
			return written(cmd.OutOrStdout().Write(picture))
		}
		return written(cmd.OutOrStdout().Write(tell.Text(r)))
	}
	return cmd
}

// maxRecordFile keeps a file that is no record out of memory.
const maxRecordFile = 64 << 20

// findRecord returns the record in the file that what names, else the last one of an eviction that it
// names. Damaged records are told, and which was taken of a file and a pod.
func findRecord(what string, dir func() (string, error), told io.Writer) (*decision.Decision, error) {
	var unread error
	if strings.HasSuffix(what, ".json") {
		data, err := input.ReadFileSoon(what, maxRecordFile)
		if err == nil {
			return recordInFile(what, data, dir, told)
		}
		unread = fmt.Errorf("%s: %w, want a record of a decision", what, err)
	}
	in, err := dir()
	if err != nil {
		return nil, errors.Join(unread, err)
	}
	found, err := store.Find(in, what)
	if len(found) == 0 {
		return nil, failure{errors.Join(unread, fmt.Errorf("%s: no record of it in %s, want a pod or a record that evictd evictions --all lists", what, in), err)}
	}
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
		err = errors.Join(fmt.Errorf("%w: this tells of the pod of that name", unread), err)
	}
	if err != nil {
		say(told, err.Error())
	}
	return found[len(found)-1], nil
}

func recordInFile(name string, data []byte, dir func() (string, error), stderr io.Writer) (*decision.Decision, error) {
	if in, err := dir(); err == nil {
		if found, _ := store.Find(in, name); len(found) > 0 {
			say(stderr, name+": this tells of the file; the pod of that name is found by its uid, or by "+found[len(found)-1].ID)
		}
	}
	r, err := decision.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func explainJSON(to io.Writer, r *decision.Decision) error {
	whatIfs, _ := whatif.Changes(r) // none where pods were not chosen from
	return printJSON(to, struct {
		*decision.Decision

		Outcome *decision.Outcome `json:"outcome,omitempty"`
		WhatIf  []whatif.Change   `json:"whatIf,omitempty"`
	}{r, r.Outcome, whatIfs})
}
