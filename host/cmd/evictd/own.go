package main

import (
	"github.com/evictd/evictd/host/internal/config"
)

// ownTable names the signals that are no signals of the kubelet: what they are is
// only known when their plugins run. It is empty where there are none.
func ownTable(cfg *config.Config) []byte {
	rows := [][]string{{"OWN SIGNAL", "UNIT, RESOURCE AND CONDITION"}}
	for _, s := range cfg.OwnSignals() {
		rows = append(rows, []string{string(s), "from the plugin that brings it; without one its thresholds have no effect"})
	}
	if len(rows) == 1 {
		return nil
	}
	return append([]byte("\n"), table(rows)...)
}
