package sdk

import (
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"
)

// logger writes the JSON form that go-plugin's host side understands. It writes to the stderr of
// the process's start, since go-plugin replaces os.Stderr later.
var logger = newLogger(os.Stderr)

// Logger returns a logger whose records appear in the host's log with their level and
// attributes. Serve makes it the default of packages slog and log.
func Logger() *slog.Logger { return logger }

// newLogger returns a logger of hclog's JSON form.
func newLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: asHclog}))
}

// asHclog renames the fields that slog adds to hclog's names.
func asHclog(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			return slog.String("@timestamp", a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
		}
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String("@level", levelName(level))
		}
	case slog.MessageKey:
		a.Key = "@message"
	}
	return a
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}

// machineryLogger returns the logger for go-plugin itself, without its noisy debug level.
func machineryLogger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr, JSONFormat: true})
}
