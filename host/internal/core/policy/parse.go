package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/shared/eviction"
)

// ThresholdConfig holds the fields of KubeletConfiguration for thresholds: maps from signal to
// text.
type ThresholdConfig struct {
	Hard            map[string]string
	Soft            map[string]string
	SoftGracePeriod map[string]string
	MinReclaim      map[string]string
	// EnforceNodeAllocatable copies hard memory thresholds to
	// allocatableMemory.available if it has "pods".
	EnforceNodeAllocatable []string
}

// Configuration keys, as in KubeletConfiguration.
const (
	keyHard       = "evictionHard"
	keySoft       = "evictionSoft"
	keySoftGrace  = "evictionSoftGracePeriod"
	keyMinReclaim = "evictionMinimumReclaim"
)

const (
	wantValue      = `want a quantity such as "1Gi" or a percentage such as "10%"`
	wantPercentage = `want a percentage between 0% and 100%, such as "10%", or exactly "0%" for no threshold`
	wantCustom     = `want a custom signal with the plugin's domain, letters, digits, ".", "-" and "_", such as "acme.example/nvme.spare"`
	wantPeriod     = `want a duration such as "1m30s"`
)

// DefaultHard returns the kubelet's default hard thresholds on Linux, for a configuration without
// any (eviction/defaults_linux.go).
func DefaultHard() map[string]string {
	return map[string]string{
		string(eviction.MemoryAvailable):   "100Mi",
		string(eviction.NodeFsAvailable):   "10%",
		string(eviction.NodeFsInodesFree):  "5%",
		string(eviction.ImageFsAvailable):  "15%",
		string(eviction.ImageFsInodesFree): "5%",
	}
}

// ParseThresholds parses c by the kubelet's grammar (ParseThresholdConfig). custom lists the known
// custom signals, which Define defines later. Hard thresholds come before soft ones, each by signal
// name, copies for allocatable memory last. The error lists every problem.
func ParseThresholds(c ThresholdConfig, custom ...eviction.Signal) ([]Threshold, error) {
	p := parser{custom: make(map[eviction.Signal]bool, len(custom))}
	for _, s := range custom {
		p.custom[s] = true
	}
	p.known = knownSignals(p.custom)
	thresholds := p.statements(keyHard, c.Hard)
	soft := p.statements(keySoft, c.Soft)
	graces := entries(&p, keySoftGrace, c.SoftGracePeriod, parseGracePeriod)
	reclaims := entries(&p, keyMinReclaim, c.MinReclaim, parseMinReclaim)
	p.pair(c, soft, graces)

	thresholds = append(thresholds, soft...)
	for i := range thresholds {
		if v, ok := reclaims[thresholds[i].Signal]; ok {
			thresholds[i].MinReclaim = &v
		}
	}
	if slices.Contains(c.EnforceNodeAllocatable, "pods") {
		// A copy of each hard memory threshold for the cgroup of all pods (addAllocatableThresholds).
		for _, t := range slices.Clone(thresholds) {
			if t.Signal == eviction.MemoryAvailable && t.Hard() {
				t.Signal = eviction.AllocatableMemoryAvailable
				thresholds = append(thresholds, t)
			}
		}
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return thresholds, nil
}

// parser collects errors and continues.
type parser struct {
	custom map[eviction.Signal]bool
	known  string // signals, for errors
	errs   []error
}

// at returns an error about the entry of a signal.
func at(key string, s eviction.Signal, format string, args ...any) error {
	return printable.FieldError{Path: []string{key, printable.Key(string(s))}, Err: fmt.Errorf(format, args...)}
}

// entries parses each entry of a known signal, by signal name. An error of read is reported with
// what is expected.
func entries[T any](p *parser, key string, m map[string]string, read func(s eviction.Signal, text string) (v T, want string, err error)) map[eviction.Signal]T {
	out := make(map[eviction.Signal]T, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s, text := eviction.Signal(name), m[name]
		_, builtin := eviction.Builtin(s)
		if !builtin && !p.custom[s] {
			want := "want one of " + p.known
			if strings.Contains(name, "/") {
				want = wantCustom
			}
			p.errs = append(p.errs, at(key, s, "unsupported eviction signal %s; %s", name, want))
			continue
		}
		v, want, err := read(s, text)
		if err != nil {
			p.errs = append(p.errs, at(key, s, "%q: %w; %s", text, err, want))
			continue
		}
		out[s] = v
	}
	return out
}

// mostKnown bounds the custom signals in an error: each of many entries may have one.
const mostKnown = 20

func knownSignals(custom map[eviction.Signal]bool) string {
	all := slices.Sorted(maps.Keys(custom))
	all = append(eviction.BuiltinSignals(), all[:min(len(all), mostKnown)]...)
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// statements returns thresholds by signal name, without disabled ones.
func (p *parser) statements(key string, m map[string]string) []Threshold {
	values := entries(p, key, m, func(s eviction.Signal, text string) (*Value, string, error) {
		if ignored(text) {
			return nil, "", nil
		}
		v, want, err := parseThresholdValue(s, text)
		return &v, want, err
	})
	var out []Threshold
	for _, s := range slices.Sorted(maps.Keys(values)) {
		if values[s] != nil {
			out = append(out, Threshold{Signal: s, Value: *values[s]})
		}
	}
	return out
}

// ignored reports whether text disables a threshold. Only these spellings do: "0.0%" makes a
// threshold that no figure is below.
func ignored(text string) bool { return text == "0%" || text == "100%" }

func parseThresholdValue(s eviction.Signal, text string) (Value, string, error) {
	if strings.HasSuffix(text, "%") {
		part, err := parsePercentage(text)
		switch {
		case err != nil:
			return Value{}, wantPercentage, err
		case part < 0:
			return Value{}, wantPercentage, fmt.Errorf("eviction percentage threshold %s must be >= 0%%: %s", s, text)
		case part > 1:
			return Value{}, wantPercentage, fmt.Errorf("eviction percentage threshold %s must be <= 100%%: %s", s, text)
		}
		return Value{Percentage: part, IsPercentage: true}, "", nil
	}
	q, err := quantity.Parse(text)
	switch {
	case err != nil:
		return Value{}, wantValue, err
	case q.Sign() <= 0:
		return Value{}, wantValue, fmt.Errorf("eviction threshold %s must be positive: %s", s, &q)
	}
	return Value{Quantity: q}, "", nil
}

// parsePercentage accepts any number of trailing "%" and any float that Go accepts, like the
// kubelet, except for NaN, which no figure is below.
func parsePercentage(text string) (float32, error) {
	f, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(f) {
		return 0, errors.New("is not a number")
	}
	return float32(f) / 100, nil
}

func parseGracePeriod(_ eviction.Signal, text string) (time.Duration, string, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("invalid eviction grace period specified: %s, must be a positive value", text)
	}
	return d, wantPeriod, err
}

// parseMinReclaim differs from thresholds: "0" means nothing, "0%" is an error and more than 100 %
// is not.
func parseMinReclaim(s eviction.Signal, text string) (Value, string, error) {
	if strings.HasSuffix(text, "%") {
		part, err := parsePercentage(text)
		switch {
		case err != nil:
			return Value{}, `want a percentage such as "5%"`, err
		case math.IsInf(float64(part), 0):
			return Value{}, `want a percentage such as "5%"`, errors.New("is not a finite number")
		case part <= 0:
			return Value{}, `want a percentage above "0%", or "0"`,
				fmt.Errorf("eviction percentage minimum reclaim %s must be positive: %s", s, text)
		}
		return Value{Percentage: part, IsPercentage: true}, "", nil
	}
	q, err := quantity.Parse(text)
	switch {
	case err != nil:
		return Value{}, wantValue, err
	case q.Sign() < 0:
		return Value{}, `want "0" or more`, fmt.Errorf("negative eviction minimum reclaim specified for %s", s)
	}
	return Value{Quantity: q}, "", nil
}

// pair sets the grace periods of soft thresholds and reports missing ones, even if the threshold
// itself is invalid. Grace periods without a threshold are valid.
func (p *parser) pair(c ThresholdConfig, soft []Threshold, graces map[eviction.Signal]time.Duration) {
	for i := range soft {
		soft[i].GracePeriod = graces[soft[i].Signal]
	}
	for _, name := range slices.Sorted(maps.Keys(c.Soft)) {
		s := eviction.Signal(name)
		_, builtin := eviction.Builtin(s)
		_, given := c.SoftGracePeriod[name]
		if (builtin || p.custom[s]) && !given && !ignored(c.Soft[name]) { // unknown signals were reported before
			p.errs = append(p.errs, at(keySoftGrace, s, "grace period must be specified for the soft eviction threshold %s; %s", s, wantPeriod))
		}
	}
}
