package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/quantity"
	"github.com/evictd/evictd/host/internal/supervisor/sandbox"
	"github.com/evictd/evictd/shared/conformance"
)

// sandboxFlags say how to confine a plugin that is checked.
type sandboxFlags struct{ user, memoryLimit string }

func (f *sandboxFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.user, "user", "", "run the plugin as this user, by name or number, confined as the daemon would: plugins.NAME.user")
	flags.StringVar(&f.memoryLimit, "memory-limit", "", "run it with this limit of memory, such as 64Mi, confined as the daemon would: plugins.NAME.memoryLimit")
}

// into confines what o starts, if it is asked for. What it made is removed by close.
func (f *sandboxFlags) into(o *conformance.Options, warnings io.Writer) (closeAll func(), err error) {
	if f.user == "" && f.memoryLimit == "" {
		return func() {}, nil
	}
	c := sandbox.Config{User: f.user}
	if f.memoryLimit != "" {
		limit, err := quantity.Parse(f.memoryLimit)
		if err != nil {
			return nil, fmt.Errorf("--memory-limit: %q: %w", f.memoryLimit, err)
		}
		bytes := limit.Value()
		if bytes < config.MinMemoryLimit {
			return nil, fmt.Errorf("--memory-limit: %q: want 16Mi or more", f.memoryLimit)
		}
		c.MemoryBytes = &bytes
	}
	var mu sync.Mutex
	told := map[string]bool{}
	s, err := sandbox.NewStandalone(c, func(lacking error) {
		mu.Lock()
		defer mu.Unlock()
		if text := oneLineOf(lacking); !told[text] {
			told[text] = true
			say(warnings, text)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("--user, --memory-limit: %w", err)
	}
	o.Sandbox = s
	return s.Close, nil
}

func oneLineOf(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
