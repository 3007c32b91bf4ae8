package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/host/internal/why/tell"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this node is, what would be observed how, and what is missing",
		Long: "Say in one screen what this node is to evictd: its kernel and which of the newer features it has, its\n" +
			"cgroups, its container runtime and the layout of its filesystems; who would observe each signal that has a\n" +
			"threshold, and how; and what check finds without starting plugins. Changes nothing. Exit code 1 if evictd\n" +
			"would not work here.",
		Args: cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print all that is said as one JSON object")
	runWith(cmd, func(cmd *cobra.Command, cfg *config.Config) error {
		d := inspect.Diagnose(cmd.Context(), cfg)
		found := inspect.Run(cmd.Context(), inspect.Options{Config: cfg, Version: version, Falls: store.Falls})
		errs, ofDaemon := checkRunning(cmd.Context(), cfg, found.Errors())
		warnings := slices.Concat(cfg.Warnings(), found.Warnings(), ofDaemon)
		out := cmd.OutOrStdout()
		if !*asJSON {
			if err := written(out.Write(append(diagnosisTables(&d), adviceTable(found)...))); err != nil {
				return err
			}
			return conclude(cmd.ErrOrStderr(), errs, warnings)
		}
		said := struct {
			inspect.Diagnosis
			Errors   []string `json:"errors,omitempty"`
			Warnings []string `json:"warnings,omitempty"`
			Advice   []string `json:"advice,omitempty"`
		}{d, texts(errs), warnings, found.Advice()}
		if err := printJSON(out, said); err != nil {
			return err
		}
		return conclude(cmd.ErrOrStderr(), errs, nil)
	})
	return cmd
}

func diagnosisTables(d *inspect.Diagnosis) []byte {
	node := [][]string{{"NODE", "VALUE", "SOURCE"}}
	for _, f := range d.Node {
		node = append(node, []string{f.Name, f.Value, f.Detail})
	}
	kernel := make([][]string, 0, len(d.Features))
	for _, f := range d.Features {
		there := "yes"
		if !f.There {
			there = "no"
		}
		kernel = append(kernel, []string{f.Name, there, f.Detail, f.Gives})
	}
	signals := make([][]string, 0, len(d.Signals))
	for _, s := range d.Signals {
		available, capacity := s.Amounts()
		signals = append(signals, []string{string(s.Signal), s.By, s.How, available, capacity})
	}
	return slices.Concat(tell.Table(node),
		tell.FurtherTable([]string{"KERNEL FEATURE", "AVAILABLE", "DETAIL", "USE"}, kernel),
		tell.FurtherTable([]string{"SIGNAL", "OBSERVED BY", "HOW", "AVAILABLE", "CAPACITY"}, signals))
}
