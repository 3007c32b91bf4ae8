package gc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Settings are the kubelet's settings of garbage collection, with its names. The zero value of
// each field means its default.
type Settings struct {
	// ImageMinimumGCAge is the minimum time between the first detection of an image and its
	// removal, so that an image just pulled for a pod is kept. A Go duration, 2m by default
	// (KubeletConfiguration.imageMinimumGCAge).
	ImageMinimumGCAge *Duration `json:"imageMinimumGCAge,omitempty"`
	// ImageGCToTarget ends image GC when the thresholds and their minimum reclaim are satisfied.
	// Without it all unused images are removed, as by a kubelet.
	ImageGCToTarget bool `json:"imageGCToTarget,omitempty"`
	// KeepImages are patterns of the names of images that image GC keeps: * stands for any text, also
	// with a slash, and all else for itself.
	KeepImages []string `json:"keepImages,omitempty"`
	// ImportedImages keeps images that have a tag and no repository digest: containerd gives a digest
	// only to images that it has pulled.
	ImportedImages bool `json:"importedImages,omitempty"`
	// LogGC is no setting any more: Validate says what to use.
	LogGC any `json:"logGC,omitempty"`
	// MinAge is the minimum age of a dead container, counted from its creation. A Go duration,
	// 0s by default (--minimum-container-ttl-duration).
	MinAge *Duration `json:"minAge,omitempty"`
	// MaxPerPodContainer is the number of dead instances to keep of each container of an existing
	// pod; negative means all. 1 by default: from the last one the kubelet reports how the
	// container ended, and its log (--maximum-dead-containers-per-container).
	MaxPerPodContainer *int `json:"maxPerPodContainer,omitempty"`
	// MaxContainers is the number of dead containers to keep on the node; negative, the default,
	// means no limit (--maximum-dead-containers).
	MaxContainers *int `json:"maxContainers,omitempty"`
	// ContainerLogsDir has a symlink to each container's log, with the container's ID in its name.
	// /var/log/containers by default.
	ContainerLogsDir string `json:"containerLogsDir,omitempty"`

	// PeriodicImageGC enables the removal of images by age and by the usage of their filesystem,
	// like a kubelet's. By default that is left to the kubelet. It uses the next three settings.
	PeriodicImageGC bool `json:"periodicImageGC,omitempty"`
	// ImageGCHighThresholdPercent is the usage of the image filesystem at which unused images are
	// removed, 85 by default. 100 disables that.
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`
	// ImageGCLowThresholdPercent is the usage down to which they are removed, 80 by default.
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// ImageMaximumGCAge is the time after which an unused image is removed regardless of the free
	// space. A Go duration; 0s, the default, means never.
	ImageMaximumGCAge *Duration `json:"imageMaximumGCAge,omitempty"`

	// DryRun, set from the host's facts, disables the periodic removal of images.
	DryRun bool `json:"-"`
}

// Duration is a time.Duration with the text form "2m30s".
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

// filled returns s with the defaults filled in.
func (s Settings) filled() Settings {
	return Settings{
		ImageMinimumGCAge:  or(s.ImageMinimumGCAge, Duration(2*time.Minute)),
		ImageGCToTarget:    s.ImageGCToTarget,
		KeepImages:         s.KeepImages,
		ImportedImages:     s.ImportedImages,
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

// or returns a pointer to a copy of *p, or of fallback if p is nil.
func or[T any](p *T, fallback T) *T {
	if p != nil {
		fallback = *p
	}
	return &fallback
}

// Validate returns all errors, each with the field's name. The rules for the periodic image GC
// are the kubelet's.
func (s Settings) Validate() error {
	logGC := s.LogGC
	s = s.filled()
	var errs []error
	notNegative := func(field string, d *Duration) {
		if *d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, want 0s or more", field, time.Duration(*d)))
		}
	}
	if logGC != nil {
		errs = append(errs, errors.New("logGC was removed, use the kubelet's containerLogMaxSize and containerLogMaxFiles"))
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
	return errors.Join(append(errs, validateKeepImages(s.KeepImages)...)...)
}
