package eviction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
)

// Meter has metrics of a plugin.
type Meter interface {
	// Metrics returns all of them. It is called for each scrape of the host, has 200 ms, and must not wait for
	// anything.
	Metrics(ctx context.Context) ([]Metric, error)
}

// Metric is a metric of a plugin, shown as evictd_plugin_NAME with the label "plugin".
type Metric struct {
	// Name has the characters a to z, 0 to 9 and '_', a letter first.
	Name string
	// Help is a sentence about it.
	Help    string
	Type    MetricType
	Samples []Sample
}

// MetricType tells gauges from counters.
type MetricType uint8

// A Gauge rises and falls, a Counter only rises while the process lives.
const (
	Gauge MetricType = iota
	Counter
)

// Sample is a value of a metric.
type Sample struct {
	// Labels are named like metrics, none is "plugin", and none is empty.
	Labels map[string]string
	// Value is finite.
	Value float64
}

// Bounds of the metrics of a plugin: samples of all together, bytes of the message, and of a text.
const (
	MaxSamples      = 64
	MaxMetricsBytes = 16 << 10
	maxLabelBytes   = 128
)

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// ValidMetrics returns all violations of the contract, joined.
func ValidMetrics(all []Metric) error {
	var errs []error
	samples, seen := 0, map[string]bool{}
	for i := range all {
		m := &all[i]
		if !metricName.MatchString(m.Name) || seen[m.Name] {
			errs = append(errs, fmt.Errorf("metrics[%d]: name %.70q, want a to z, 0 to 9 and '_', a letter first, and each name once", i, m.Name))
			continue
		}
		seen[m.Name] = true
		samples += len(m.Samples)
		labels := map[string]bool{}
		for _, s := range m.Samples {
			if err := s.valid(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
				break
			}
			if key := fmt.Sprint(s.Labels); labels[key] {
				errs = append(errs, fmt.Errorf("%s: two samples have the labels %.100s", m.Name, key))
				break
			} else {
				labels[key] = true
			}
		}
	}
	if samples > MaxSamples {
		errs = append(errs, fmt.Errorf("%d samples, want at most %d", samples, MaxSamples))
	}
	return errors.Join(errs...)
}

func (s *Sample) valid() error {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return fmt.Errorf("value %v, want a finite one", s.Value)
	}
	for name, value := range s.Labels {
		if !metricName.MatchString(name) || name == "plugin" {
			return fmt.Errorf("label %.70q, want a to z, 0 to 9 and '_', a letter first, and not \"plugin\"", name)
		}
		if n := len(value); n == 0 || n > maxLabelBytes { // Prometheus takes an empty label for none
			return fmt.Errorf("label %s has %d bytes, want 1 to %d", name, n, maxLabelBytes)
		}
	}
	return nil
}
