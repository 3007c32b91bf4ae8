package config

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/capability"
)

// Plugin is what the configuration says of one plugin. A pointer that is nil is a
// field that was not given: its text may be wrong, but never empty by mistake.
type Plugin struct {
	// Config goes to the plugin as it is, as JSON; nil when there is none.
	Config json.RawMessage `json:"config,omitempty"`
	// AutoMTLS encrypts the calls to the plugin; nil means yes.
	AutoMTLS *bool `json:"autoMTLS,omitempty"`
	// Disabled keeps the plugin from being started.
	Disabled bool `json:"disabled,omitempty"`
	// SHA256 is the hash of its file, in hexadecimal digits.
	SHA256 *string `json:"sha256,omitempty"`
	// User and Group are who it runs as, by name or number.
	User  *string `json:"user,omitempty"`
	Group *string `json:"group,omitempty"`
	// Capabilities are what it keeps of the host's; nil means what is usual for it.
	Capabilities []string `json:"capabilities,omitempty"`
	// MemoryLimit and CPULimit are of the plugin with its children; 0 is no limit.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	CPULimit    *resource.Quantity `json:"cpuLimit,omitempty"`
}

const (
	// MinMemoryLimit is what a plugin written in Go needs to start at all, and
	// keeps a forgotten unit from being a limit of 256 bytes.
	MinMemoryLimit = 16 << 20
	// minMilliCPU is the least that the kernel takes: 1 ms of 100.
	minMilliCPU = 10
)

// MTLS reports whether calls to the plugin are encrypted.
func (p Plugin) MTLS() bool { return p.AutoMTLS == nil || *p.AutoMTLS }

// Allowed is Capabilities as a set, nil if there are none in the configuration.
func (p Plugin) Allowed() *capability.Set {
	if p.Capabilities == nil {
		return nil
	}
	set, _ := capability.Parse(p.Capabilities) // Names that are none were reported.
	return &set
}

// MemoryBytes is MemoryLimit, nil if it is not in the configuration.
func (p Plugin) MemoryBytes() *int64 {
	if p.MemoryLimit == nil {
		return nil
	}
	bytes := p.MemoryLimit.Value()
	return &bytes
}

// MilliCPU is CPULimit in thousandths, nil if it is not in the configuration.
func (p Plugin) MilliCPU() *int64 {
	if p.CPULimit == nil {
		return nil
	}
	milli := p.CPULimit.MilliValue()
	return &milli
}

// pluginProblems finds names that no plugin can have, which are file names, and
// settings that cannot be.
func (c *Config) pluginProblems() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		if !validPluginName(name) {
			errs = append(errs, fmt.Errorf(`plugins[%q]: want the file name of a plugin such as "memory", without "/", a leading "." or the ending ".tmp"`, shown(name)))
		}
		errs = append(errs, c.Plugins[name].problems(name)...)
	}
	return errs
}

func (p Plugin) problems(name string) []error {
	var errs []error
	check := func(ok bool, field string, value any) {
		if !ok {
			path := []string{"plugins", name, field}
			errs = append(errs, fmt.Errorf("%s: %s: want %s", pathString(path), shown(strconv.Quote(fmt.Sprint(value))), want(path)))
		}
	}
	if p.SHA256 != nil {
		hash, err := hex.DecodeString(*p.SHA256)
		check(err == nil && len(hash) == 32, "sha256", *p.SHA256)
	}
	for field, who := range map[string]*string{"user": p.User, "group": p.Group} {
		if who != nil {
			check(*who != "" && !strings.ContainsFunc(*who, func(r rune) bool { return control(r) || r == ':' || r == ' ' }), field, *who)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if _, err := capability.Parse(p.Capabilities); err != nil {
		for _, e := range split(err) {
			if u, ok := errors.AsType[capability.Unknown](e); ok {
				u.Name = shown(u.Name)
				e = u
			}
			errs = append(errs, fmt.Errorf("%s%w", pathString([]string{"plugins", name, "capabilities"}), e))
		}
	}
	if p.MemoryLimit != nil {
		check(p.MemoryLimit.IsZero() || p.MemoryLimit.Value() >= MinMemoryLimit, "memoryLimit", p.MemoryLimit)
	}
	if p.CPULimit != nil {
		check(p.CPULimit.IsZero() || p.CPULimit.MilliValue() >= minMilliCPU, "cpuLimit", p.CPULimit)
	}
	return errs
}
