package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/host/internal/why/whatif"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POD|UID|RECORD|EPISODE|OWNER",
		Short: "Tell why a pod was evicted, and what would have spared it",
		Long: "Tell why a pod was evicted: why then, what was tried before, why this pod and not another one, what would\n" +
			"have spared it and who would have gone instead, and what followed. The pod is named by namespace/name, name\n" +
			"or uid, and its last eviction is told; or the decision by the id of its record, or a copy of its file,\n" +
			".json.gz or .json. An episode of evictd evictions, an owner such as deployment/shop/report, or the beginning\n" +
			"of names tells of several. evictd need not run, but for --now: how far each threshold is from being acted on, and who would go then.",
	}
	dir := addRecordsDir(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the record as JSON, with what would have spared the pod")
	asSVG := cmd.Flags().Bool("svg", false, "print a picture of the signal before the decision, and of what followed")
	others := cmd.Flags().StringArray("if", nil, `also say when another threshold would have been met, such as "memory.available<2Gi" or "memory.available<2Gi for 30s"`)
	now := cmd.Flags().Bool("now", false, "ask the running evictd for each threshold what is missing until it acts, and who would go")
	runDir := addRunDir(cmd)
	cmd.MarkFlagsMutuallyExclusive("json", "svg")
	cmd.MarkFlagsMutuallyExclusive("now", "svg")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *now {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	completeNames(cmd, dir, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *now {
			return explainNow(cmd, runDir, *asJSON)
		}
		in := store.Resolver{Dir: dir, Say: sayOnce(cmd.ErrOrStderr())}
		if _, err := os.Stat(args[0]); err != nil { // else it is a file, perhaps of another node
			saySick(cmd)
		}
		all, err := in.FindAll(args[0])
		if err != nil {
			return err
		}
		r := all[len(all)-1]
		switch {
		case len(all) > 1 && *asJSON:
			return printJSONLines(cmd.OutOrStdout(), all...)
		case len(all) > 1 && !*asSVG:
			return written(cmd.OutOrStdout().Write(tell.Episode(all, time.Now())))
		case *asJSON:
			whatIfs, _ := whatif.Changes(r) // none if no pod was chosen
			return printJSON(cmd.OutOrStdout(), struct {
				*decision.Decision

				Advice whatif.Advice   `json:"advice,omitzero"`
				WhatIf []whatif.Change `json:"whatIf,omitempty"`
			}{r, whatif.Advise(r), whatIfs})
		case *asSVG:
			picture, err := tell.SVG(r)
			if err != nil {
				return fmt.Errorf("%s: %w", r.ID, err)
			}
			return written(cmd.OutOrStdout().Write(picture))
		}
		said, err := ifOthers(r, *others)
		if err != nil {
			return err
		}
		return written(cmd.OutOrStdout().Write(append(tell.Text(r), said...)))
	}
	return cmd
}

// ifOthers returns a line for each threshold of --if.
func ifOthers(r *decision.Decision, others []string) (out []byte, err error) {
	for _, text := range others {
		t, err := decision.ParseThreshold(text)
		if err != nil {
			return nil, fmt.Errorf("--if: %.100q: %w", text, err)
		}
		e, err := whatif.Met(r, []policy.Threshold{t})
		if err != nil {
			return nil, failure{fmt.Errorf("--if: %.100q: %w", text, err)}
		}
		out = append(out, tell.If(text, &e)...)
	}
	return out, nil
}
