package sdk

import (
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"
)

// logger writes what go-plugin's host side understands. Its writer is the
// stderr of the process's start: go-plugin replaces os.Stderr later.
var logger = newLogger(os.Stderr)

// Logger returns the logger whose records appear in the host's log with their
// level and attributes. Serve makes it slog's default and that of package log.
func Logger() *slog.Logger { return logger }

// newLogger returns a logger of hclog's JSON form.
func newLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: asHclog}))
}

// asHclog renames the fields that slog adds to those that hclog has.
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

// machineryLogger is for go-plugin itself, whose debug level is noise.
func machineryLogger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr, JSONFormat: true})
}
