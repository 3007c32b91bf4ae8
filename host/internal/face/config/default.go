package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/crisocket"
)

// Default returns the configuration without a file or flags, for programs that fill one in
// themselves. NodeName is empty if the host has no name. StateDir is always empty: such a program
// must set it to keep records.
func Default() Config {
	c := blank()
	c.StateDir = ""
	mergeHard(&c)
	_ = complete(&c, os.Hostname) // only the name may be missing
	return c
}

// blank returns the fields' defaults. Fields whose default depends on others stay empty until
// complete.
func blank() Config {
	var c Config
	setDefaults(&c)
	return c
}

// setDefaults sets the defaults of the fields of a struct in tables.
func setDefaults(s any) {
	each(nil, reflect.ValueOf(s).Elem(), func(_ []string, f field, at reflect.Value) {
		if f.def != "" {
			f.parse(at, f.def)
		}
	})
}

// mergeHard merges the kubelet's defaults into the files' hard thresholds. It runs before flags are
// applied: as in the kubelet, a flag replaces all of them
// (cmd/kubelet/app/server.go:loadConfigFile).
func mergeHard(c *Config) {
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = policy.DefaultHard()
	case c.MergeDefaultEvictionSettings:
		merged := policy.DefaultHard()
		maps.Copy(merged, c.EvictionHard)
		c.EvictionHard = merged
	}
}

// complete sets defaults that depend on other fields or the machine.
func complete(c *Config, hostname func() (string, error)) error {
	c.RuntimeEndpoint = crisocket.Endpoint(c.RuntimeEndpoint)
	c.ImageEndpoint = crisocket.Endpoint(cmp.Or(c.ImageEndpoint, c.RuntimeEndpoint))
	each(nil, reflect.ValueOf(c).Elem(), func(_ []string, f field, at reflect.Value) {
		switch value := at.Addr().Interface().(type) {
		case *metav1.Duration:
			if value.Duration == 0 && f.kind.zeroIsDefault {
				f.parse(at, f.def)
			}
		case *string:
			if filepath.IsAbs(*value) && filepath.IsAbs(f.def) {
				*value = filepath.Clean(*value)
			}
		}
	})
	if c.NodeName != "" {
		return nil
	}
	name, err := hostname()
	if err != nil {
		return fmt.Errorf("nodeName: not given, and the host name cannot be read: %w", err)
	}
	c.NodeName = strings.ToLower(name)
	return nil
}
