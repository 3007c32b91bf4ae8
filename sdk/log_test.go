package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogIsInHclogsForm(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "debug", slog.LevelInfo: "info", slog.LevelInfo + 1: "info", slog.LevelWarn: "warn", slog.LevelError: "error", slog.LevelError + 4: "error",
	} {
		var out bytes.Buffer
		newLogger(&out).With("a", 1).Log(t.Context(), level, "read figures", "error", errors.New("gone"), slog.Group("g", "level", "inner"))
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.Bytes(), err)
		}
		at, _ := got["@timestamp"].(string)
		if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", at); err != nil {
			t.Errorf("the host cannot parse the time: %v", err)
		}
		delete(got, "@timestamp")
		if diff := cmp.Diff(map[string]any{
			"@level": want, "@message": "read figures", "a": 1.0, "error": "gone", "g": map[string]any{"level": "inner"},
		}, got); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	}
}
