package gc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Settings are the kubelet's settings of garbage collection, with its names. The
// zero value of each field is its default.
type Settings struct {
	// ImageMinimumGCAge is the minimum time from the first detection of an image to its
	// removal, so that one that was just pulled for a pod is not removed under it. A Go
	// duration, 2m by default (KubeletConfiguration.imageMinimumGCAge).
	ImageMinimumGCAge *Duration `json:"imageMinimumGCAge,omitempty"`
	// ImageGCToTarget ends image GC when the thresholds are satisfied with their min reclaim.
	// Without it all unused images go, as with a kubelet.
	ImageGCToTarget bool `json:"imageGCToTarget,omitempty"`
	// MinAge is the minimum age of a dead container, counted from its creation. A Go duration,
	// 0s by default (--minimum-container-ttl-duration).
	MinAge *Duration `json:"minAge,omitempty"`
	// MaxPerPodContainer bounds the dead instances that are kept of each container of a pod
	// that is still there; negative means all. 1 by default: the kubelet tells from the last
	// one how the container ended, and has its log (--maximum-dead-containers-per-container).
	MaxPerPodContainer *int `json:"maxPerPodContainer,omitempty"`
	// MaxContainers bounds the dead containers that are kept on the node; negative, the
	// default, means no limit (--maximum-dead-containers).
	MaxContainers *int `json:"maxContainers,omitempty"`
	// ContainerLogsDir has a symlink for each container's log, by container id.
	// /var/log/containers by default.
	ContainerLogsDir string `json:"containerLogsDir,omitempty"`

	// PeriodicImageGC has images removed by age and by use of their filesystem, as a
	// kubelet does. Without it that is left to the kubelet. The next three are for it.
	PeriodicImageGC bool `json:"periodicImageGC,omitempty"`
	// ImageGCHighThresholdPercent is the use of the filesystem of images at which unused
	// ones are removed, 85 by default. With 100 none is for the room that it takes.
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`
	// ImageGCLowThresholdPercent is the use down to which they are, 80 by default.
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// ImageMaximumGCAge is the time after which an unused image is removed whatever room there
	// is. A Go duration; 0s, the default, means never.
	ImageMaximumGCAge *Duration `json:"imageMaximumGCAge,omitempty"`

	// DryRun keeps all images from being removed periodically. It is the host's to say.
	DryRun bool `json:"-"`
}

// Duration is a time.Duration that is written as in "2m30s".
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("duration %s, want a string such as \"2m\"", raw)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q, want one such as \"2m\" or \"1h30m\"", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// filled returns s with the defaults in place of what is not set.
func (s Settings) filled() Settings {
	return Settings{
		ImageMinimumGCAge:  or(s.ImageMinimumGCAge, Duration(2*time.Minute)),
		ImageGCToTarget:    s.ImageGCToTarget,
		MinAge:             or(s.MinAge, 0),
		MaxPerPodContainer: or(s.MaxPerPodContainer, 1),
		MaxContainers:      or(s.MaxContainers, -1),
		ContainerLogsDir:   cmp.Or(s.ContainerLogsDir, "/var/log/containers"),

		PeriodicImageGC:             s.PeriodicImageGC,
		ImageGCHighThresholdPercent: or(s.ImageGCHighThresholdPercent, 85),
		ImageGCLowThresholdPercent:  or(s.ImageGCLowThresholdPercent, 80),
		ImageMaximumGCAge:           or(s.ImageMaximumGCAge, 0),
		DryRun:                      s.DryRun,
	}
}

// or returns a pointer of its own to what p points to, or to fallback.
func or[T any](p *T, fallback T) *T {
	if p != nil {
		fallback = *p
	}
	return &fallback
}

// Validate returns all that is wrong, each with the field's name. Of the periodic GC of
// images it is what the kubelet says.
func (s Settings) Validate() error {
	s = s.filled()
	var errs []error
	notNegative := func(field string, d *Duration) {
		if *d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, want 0s or more", field, time.Duration(*d)))
		}
	}
	notNegative("imageMinimumGCAge", s.ImageMinimumGCAge)
	notNegative("minAge", s.MinAge)
	if !filepath.IsAbs(s.ContainerLogsDir) {
		errs = append(errs, fmt.Errorf("containerLogsDir is %q, want an absolute path", s.ContainerLogsDir))
	}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	high, low := *s.ImageGCHighThresholdPercent, *s.ImageGCLowThresholdPercent
	if high < 0 || high > 100 {
		wrong("imageGCHighThresholdPercent %d must be between 0 and 100, inclusive", high)
	}
	if low < 0 || low > 100 {
		wrong("imageGCLowThresholdPercent %d must be between 0 and 100, inclusive", low)
	}
	if low >= high {
		wrong("imageGCLowThresholdPercent %d must be less than imageGCHighThresholdPercent %d", low, high)
	}
	oldest, youngest := time.Duration(*s.ImageMaximumGCAge), time.Duration(*s.ImageMinimumGCAge)
	switch {
	case oldest < 0:
		wrong("imageMaximumGCAge %v must not be negative", oldest)
	case oldest > 0 && oldest <= youngest:
		wrong("imageMaximumGCAge %v must be greater than imageMinimumGCAge %v", oldest, youngest)
	}
	return errors.Join(errs...)
}

// periodic reports whether images are removed without being asked to. s is filled.
func (s Settings) periodic() bool {
	return s.PeriodicImageGC && (*s.ImageGCHighThresholdPercent < 100 || *s.ImageMaximumGCAge > 0)
}
