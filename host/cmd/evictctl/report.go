package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/host/internal/why/tell"
)

func newReport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Sum up what was killed and evicted on this node",
		Long: "Sum up the records of this node: processes of pods that the kernel has killed, and at whose limit; evictions, in a\n" +
			"dry run too, by signal; and evictions by the kubelet of pods that a dry run would have evicted, with the seconds between.",
		Args: cobra.NoArgs,
	}
	dir := addRecordsDir(cmd)
	f := store.Filter{Since: 7 * 24 * time.Hour}
	cmd.Flags().Var((*find.Age)(&f.Since), "since", "only the last so long, such as 36h or 7d (default 7d)")
	asJSON := cmd.Flags().Bool("json", false, "print it as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := dir()
		if err != nil {
			return err
		}
		saySick(cmd)
		f.All = true // a kernel kill of no known pod, too
		heads, unread := store.Heads(in, f)
		if unread != nil && len(heads) == 0 {
			return command.Failure{Err: unread}
		}
		if unread != nil {
			program.Say(cmd.ErrOrStderr(), unread.Error())
		}
		report := tell.NewReport(heads)
		if *asJSON {
			return printJSONLines(cmd.OutOrStdout(), report)
		}
		return command.Written(cmd.OutOrStdout().Write(report.Text()))
	}
	return cmd
}
