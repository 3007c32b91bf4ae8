package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/host/internal/why/whatif"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POD|UID|RECORD|EPISODE|OWNER",
		Short: "Tell why a pod was evicted, and what would have spared it",
		Long: "Tell why a pod was evicted then, why this pod and not another one, what would have spared it, what followed.\n" +
			"Name the pod (namespace/name, name or uid; its last eviction counts), the id of a record, or a copy of its file.\n" +
			"An episode, an owner such as deployment/shop/report, or the beginning of names tells of several. evictd need not run, but for --now.",
	}
	dir := addRecordsDir(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the record as JSON, with what would have spared the pod")
	asSVG := cmd.Flags().Bool("svg", false, "print a picture of the signal before the decision, and of what followed")
	asHTML := cmd.Flags().Bool("html", false, "print all of it as one page, with the picture and the record, to open or to attach")
	owner := cmd.Flags().String("owner", "", "print ten facts of the last eviction of `NAMESPACE/POD` for its owner; they name no other pod")
	others := cmd.Flags().StringArray("if", nil, `also say when another threshold would have been met, such as "memory.available<2Gi" or "memory.available<2Gi for 30s"`)
	since := time.Duration(0)
	cmd.Flags().Var((*find.Age)(&since), "since", "tell of all evictions of the last so long, such as 36h or 7d")
	now := cmd.Flags().Bool("now", false, "ask the running evictd for each threshold what is missing until it acts, and who would go")
	runDir := addRunDir(cmd)
	cmd.MarkFlagsMutuallyExclusive("json", "svg", "html")
	cmd.MarkFlagsMutuallyExclusive("now", "svg", "html")
	cmd.MarkFlagsMutuallyExclusive("now", "since")
	cmd.MarkFlagsMutuallyExclusive("owner", "svg")
	cmd.MarkFlagsMutuallyExclusive("owner", "now")
	cmd.MarkFlagsMutuallyExclusive("owner", "since")
	cmd.MarkFlagsMutuallyExclusive("owner", "if")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("owner") {
			return ownerAlone(args)
		}
		if *now || since > 0 {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	completeNames(cmd, dir, true)
	_ = cmd.RegisterFlagCompletionFunc("owner", fromRecords(dir, find.Pods)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *now {
			return explainNow(cmd, runDir, *asJSON)
		}
		in := find.Resolver{Dir: dir, Say: sayOnce(cmd.ErrOrStderr())}
		if cmd.Flags().Changed("owner") {
			saySick(cmd)
			return explainOwner(cmd.OutOrStdout(), &in, *owner, *asJSON, *asHTML)
		}
		what := strings.Join(args, "")
		if _, err := os.Stat(what); err != nil { // else it is a file, perhaps of another node
			saySick(cmd)
		}
		all, err := in.FindAll(what, since)
		if err != nil {
			return err
		}
		if *asSVG && len(all) > 1 {
			in.Say(fmt.Sprintf("%d records, this draws the newest, %s", len(all), all[len(all)-1].ID))
		}
		said, err := ifOthers(all[0], *others) // of several the first, whose samples are those before any eviction
		if err != nil {
			return err
		}
		if *asHTML {
			return command.Written(cmd.OutOrStdout().Write(tell.HTML(all, said, time.Now())))
		}
		return explain(cmd.OutOrStdout(), all, said, *asJSON, *asSVG)
	}
	return cmd
}

// explain prints decisions, with what was said of other thresholds.
func explain(out io.Writer, all []*decision.Decision, said []byte, asJSON, asSVG bool) error {
	r := all[len(all)-1]
	switch {
	case asSVG:
		picture, err := tell.SVG(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		return command.Written(out.Write(picture))
	case asJSON && len(all) > 1:
		return printJSONLines(out, all...)
	case asJSON:
		whatIfs, _ := whatif.Changes(r) // none if no pod was chosen
		return printJSON(out, struct {
			*decision.Decision

			Advice reason.Advice   `json:"advice,omitzero"`
			WhatIf []whatif.Change `json:"whatIf,omitempty"`
		}{r, reason.Advise(r), whatIfs})
	case len(all) > 1:
		return command.Written(out.Write(append(tell.Episode(all, time.Now()), said...)))
	}
	return command.Written(out.Write(append(tell.Text(r), said...)))
}

func ownerAlone(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("--owner names the pod, want no argument %q beside it", args[0])
	}
	return nil
}

// explainOwner prints what the owner of a pod may read of its last eviction.
func explainOwner(out io.Writer, in *find.Resolver, pod string, asJSON, asHTML bool) error {
	if namespace, name, _ := strings.Cut(pod, "/"); namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("--owner: %.100q, want NAMESPACE/POD", pod)
	}
	d, err := in.Find(pod)
	switch {
	case err != nil:
		return fmt.Errorf("--owner: %w", err)
	case d.Victim == nil || d.Victim.Pod != pod:
		return fmt.Errorf("--owner: %s: %w of this pod, want a name that evictctl evictions lists", pod, store.ErrNone)
	case d.DryRun:
		return fmt.Errorf("--owner: %s: record %s is of a dry run: the pod was not evicted", pod, d.ID)
	}
	o := tell.Owner(d)
	switch {
	case asJSON:
		return printJSON(out, o)
	case asHTML:
		return command.Written(out.Write(o.HTML(pod)))
	}
	return command.Written(out.Write(o.Text()))
}

// ifOthers returns a line for each threshold of --if.
func ifOthers(r *decision.Decision, others []string) (out []byte, err error) {
	for _, text := range others {
		t, err := config.ParseThreshold(text)
		if err != nil {
			return nil, fmt.Errorf("--if: %.100q: %w", text, err)
		}
		e, err := whatif.Met(r, []policy.Threshold{t})
		if err != nil {
			return nil, command.Failure{Err: fmt.Errorf("--if: %.100q: %w", text, err)}
		}
		out = append(out, tell.If(text, &e)...)
	}
	return out, nil
}
