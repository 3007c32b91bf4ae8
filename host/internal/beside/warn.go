package beside

import (
	"log/slog"
	"strings"
)

// Warn logs which settings of the kubelet should be others, and sends one event about the node
// with all of them unless it is a dry run.
func Warn(findings []Finding, log *slog.Logger, event func(eventType, reason, message string), dryRun bool) {
	var texts []string
	for _, f := range findings {
		if f.Mend {
			log.Warn("kubelet's setting does not go with evictd's", "signal", f.Signal, "about", f.About, "reason", f.Text)
			texts = append(texts, f.Signal+": "+f.Text)
		}
	}
	if len(texts) > 0 && !dryRun {
		event("Warning", "KubeletSettings", strings.Join(texts, "; "))
	}
}
