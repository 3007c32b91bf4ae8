package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What a file of the kubelet says it is.
const (
	kubeletVersion = "kubelet.config.k8s.io/v1beta1"
	kubeletKind    = "KubeletConfiguration"
)

// kubeletFields are the keys of KubeletConfiguration that decisions on evictions
// depend on, with the fields that they are here. The rest of the file is for the
// kubelet alone.
var kubeletFields = map[string]string{
	"evictionHard":                     "evictionHard",
	"evictionSoft":                     "evictionSoft",
	"evictionSoftGracePeriod":          "evictionSoftGracePeriod",
	"evictionMinimumReclaim":           "evictionMinimumReclaim",
	"evictionMaxPodGracePeriod":        "evictionMaxPodGracePeriod",
	"evictionPressureTransitionPeriod": "evictionPressureTransitionPeriod",
	"mergeDefaultEvictionSettings":     "mergeDefaultEvictionSettings",
	"enforceNodeAllocatable":           "enforceNodeAllocatable",
	"kernelMemcgNotification":          "kernelMemcgNotification",
	"localStorageCapacityIsolation":    "localStorageCapacityIsolation",
	"featureGates":                     "featureGates",
	"cgroupRoot":                       "cgroupRoot",
	"cgroupDriver":                     "cgroupDriver",
	"podLogsDir":                       "podLogsDir",
	"containerRuntimeEndpoint":         "runtimeEndpoint",
	"imageServiceEndpoint":             "imageEndpoint",
}

// kubeletDefaulted are the fields for which the kubelet takes the empty text as
// none.
var kubeletDefaulted = []string{"cgroupRoot", "cgroupDriver", "podLogsDir", "runtimeEndpoint", "imageEndpoint"}

// decodeKubelet lays what the kubelet's file has of interest over c.
func (c *Config) decodeKubelet(l *layer, data []byte) []error {
	doc, errs := fieldsOf(data)
	errs = slices.DeleteFunc(errs, func(err error) bool {
		_, ours := kubeletFields[topField(err)]
		return doc != nil && !ours
	})
	if doc == nil {
		return wantKubelet(errs)
	}
	errs = append(errs, checkKind(doc)...)
	fields := make(object, len(kubeletFields))
	for key, field := range kubeletFields {
		if value, ok := kubeletValue(field, doc[key]); ok {
			fields[field], l.keys[field] = value, key
		}
	}
	return append(errs, c.lay(l, fields)...)
}

// kubeletValue returns the value of a field as evictd has it, and whether there
// is one.
func kubeletValue(field string, value json.RawMessage) (json.RawMessage, bool) {
	if len(value) == 0 || string(value) == "null" {
		return nil, false
	}
	if slices.Contains(kubeletDefaulted, field) {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return value, true
		}
		full, err := json.Marshal(inFull(field, text))
		return full, err == nil && text != ""
	}
	if field == "featureGates" {
		return knownGates(value), true
	}
	return value, true
}

// inFull adds to a kubelet's value what the kubelet takes for granted: a path is
// that of a socket, and cgroups are named from the root.
func inFull(field, text string) string {
	switch {
	case (field == "runtimeEndpoint" || field == "imageEndpoint") && strings.HasPrefix(text, "/"):
		return "unix://" + text
	case field == "cgroupRoot" && !strings.HasPrefix(text, "/"):
		return "/" + text
	default:
		return text
	}
}

// knownGates leaves out the many gates that are none of evictd's business, so that
// they do not count as slips.
func knownGates(value json.RawMessage) json.RawMessage {
	var gates object
	if json.Unmarshal(value, &gates) != nil || gates == nil {
		return value
	}
	maps.DeleteFunc(gates, func(name string, _ json.RawMessage) bool { return !slices.Contains(features, name) })
	out, err := json.Marshal(gates)
	if err != nil {
		return value
	}
	return out
}

// checkKind keeps another program's file from passing as one without settings.
func checkKind(doc object) []error {
	var errs []error
	for _, f := range []struct{ key, want string }{{"apiVersion", kubeletVersion}, {"kind", kubeletKind}} {
		value, ok := doc[f.key]
		if got := string(value); got != strconv.Quote(f.want) {
			if !ok {
				got = "not given"
			}
			errs = append(errs, fmt.Errorf("%s: %s, want %q", f.key, shown(got), f.want))
		}
	}
	return errs
}

// wantKubelet rewords what was said of a file that has nothing in it.
func wantKubelet(errs []error) []error {
	for i, err := range errs {
		switch {
		case errors.Is(err, errEmpty):
			errs[i] = errors.New("is empty, want a " + kubeletKind)
		case errors.Is(err, errNoMapping):
			errs[i] = errors.New("is not a mapping, want a " + kubeletKind)
		}
	}
	return errs
}
