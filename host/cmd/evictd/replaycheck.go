package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/evictd/evictd/host/internal/replay"
)

// checkReplays prints the first difference of each trace that fails, what evictd
// does in those that need not be matched, and how many there are of each.
func checkReplays(ctx context.Context, out io.Writer, r *replayer, files []string) error {
	counts := map[replay.Result]int{}
	err := r.each(ctx, files, func(done replayed) error {
		if errors.Is(done.err, errInterrupted) {
			return done.err
		}
		v := replay.Check(done.trace, done.replay, done.err)
		counts[v.Result]++
		return written(out.Write(verdictText(done, v)))
	})
	if err != nil {
		return err
	}
	total := fmt.Sprintf("%d passed, %d failed, %d skipped\n", counts[replay.Passed], counts[replay.Failed], counts[replay.Skipped])
	if err := written(io.WriteString(out, total)); err != nil {
		return err
	}
	if counts[replay.Failed] > 0 {
		return failure{errors.New("decisions differ from what was recorded")}
	}
	return nil
}

func verdictText(done replayed, v replay.Verdict) []byte {
	var b bytes.Buffer
	switch v.Result {
	case replay.Passed:
		return nil
	case replay.Failed:
		b.WriteString("FAIL " + done.file + "\n")
	case replay.Skipped:
		b.WriteString("SKIP " + done.file + " (" + strings.Join(done.trace.Scenario.Quirks, ", ") + ")\n")
	}
	for line := range strings.Lines(v.Why) {
		b.WriteString("  " + strings.TrimSpace(strings.TrimPrefix(line, done.file+": ")) + "\n")
	}
	return b.Bytes()
}

func decisionsLine(done replayed) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(done.replay.Decisions)
	return b.Bytes(), err
}

func timelineOf(done replayed) ([]byte, error) {
	return append(replay.Timeline(done.trace, done.replay), '\n'), nil
}
