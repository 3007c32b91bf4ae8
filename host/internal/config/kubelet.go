package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// What a file of the kubelet says it is.
const (
	kubeletVersion = "kubelet.config.k8s.io/v1beta1"
	kubeletKind    = "KubeletConfiguration"
)

// decodeKubelet lays what the kubelet's file has of interest over c: the keys of
// which a field's tag has the name. The rest of the file is for the kubelet alone.
func decodeKubelet(c *Config, l *layer, data []byte) []error {
	ours := map[string]field{}
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if f.kubelet != "" {
			ours[f.kubelet] = f
		}
	}
	doc, errs := fieldsIn(data)
	errs = slices.DeleteFunc(errs, func(err error) bool { return doc != nil && ours[topField(err)].name == "" })
	if doc == nil {
		return wantKubelet(errs)
	}
	errs = append(errs, checkKind(doc)...)
	fields := make(object, len(ours))
	for key, f := range ours {
		if value := doc[key]; len(value) > 0 && string(value) != "null" {
			if value = kubeletValue(f, value); value != nil {
				fields[f.name], l.keys[f.name] = value, key
			}
		}
	}
	return append(errs, lay(c, l, fields)...)
}

// kubeletValue returns the value of a field as evictd has it: with what the kubelet
// takes for granted, and nil for the empty text, which is none to the kubelet.
func kubeletValue(f field, value json.RawMessage) json.RawMessage {
	var text string
	switch {
	case f.name == "featureGates":
		return knownGates(value)
	case f.typ.Kind() != reflect.String || json.Unmarshal(value, &text) != nil:
		return value
	case text == "":
		return nil
	case strings.HasSuffix(f.name, "Endpoint") && strings.HasPrefix(text, "/"): // a path is that of a socket
		text = "unix://" + text
	case f.name == "cgroupRoot" && !strings.HasPrefix(text, "/"): // cgroups are named from the root
		text = "/" + text
	}
	full, err := json.Marshal(text)
	if err != nil {
		return value
	}
	return full
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
