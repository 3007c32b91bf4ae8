package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/shared/sandbox"
)

// sandboxFlags configures the confinement of a plugin that is checked.
type sandboxFlags struct{ user, memoryLimit string }

func (f *sandboxFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.user, "user", "", "run the plugin as this user, by name or number, confined as the daemon would: plugins.NAME.user")
	flags.StringVar(&f.memoryLimit, "memory-limit", "", "run it with this limit of memory, such as 64Mi, confined as the daemon would: plugins.NAME.memoryLimit")
}

// into applies the confinement to o, if requested.
func (f *sandboxFlags) into(o *conformance.Options, warnings io.Writer) error {
	if f.user == "" && f.memoryLimit == "" {
		return nil
	}
	policy := sandbox.Usual()
	policy.User = f.user
	if f.memoryLimit != "" {
		limit, err := quantity.Parse(f.memoryLimit)
		if err != nil {
			return fmt.Errorf("--memory-limit: %q: %w", f.memoryLimit, err)
		}
		if policy.MemoryBytes = limit.Value(); policy.MemoryBytes < config.MinMemoryLimit {
			return fmt.Errorf("--memory-limit: %q: want 16Mi or more", f.memoryLimit)
		}
	}
	if err := sandbox.Try(policy); err != nil {
		return fmt.Errorf("--user, --memory-limit: %w", err)
	}
	var mu sync.Mutex
	warn := func(what string) func(string, error) {
		return func(_ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			say(warnings, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	o.Sandbox = &policy
	o.Tell = sandbox.Tell{Unlimited: warn("the plugin runs without some of its limits"), Left: warn("something of a plugin is left")}
	return nil
}
