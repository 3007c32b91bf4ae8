package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/slip"
)

// forms says of each field what a right value looks like, for the end of an
// error: "want ...".
var forms = map[string]string{
	"nodeName":                         `a node name in quotes, such as "node-1"`,
	"mode":                             `"cri"`,
	"pluginDir":                        `an absolute path such as "/usr/libexec/evictd/plugins"`,
	"runDir":                           `an absolute path such as "/run/evictd"`,
	"podManifestDir":                   `an absolute path such as "/etc/evictd/manifests"`,
	"runtimeEndpoint":                  `a socket such as "unix:///run/containerd/containerd.sock"`,
	"imageEndpoint":                    `a socket such as "unix:///run/containerd/containerd.sock"`,
	"rootDir":                          `an absolute path such as "/"`,
	"cgroupRoot":                       `an absolute path such as "/"`,
	"cgroupDriver":                     `"cgroupfs" or "systemd"`,
	"kubeletRootDir":                   `an absolute path such as "/var/lib/kubelet"`,
	"podLogsDir":                       `an absolute path such as "/var/log/pods"`,
	"listenAddress":                    `an IP address and a port such as "127.0.0.1:10269"`,
	"logLevel":                         `"debug", "info", "warn" or "error"`,
	"dryRun":                           `true or false`,
	"pacing":                           `"evictd" or "kubelet"`,
	"monitoringInterval":               `a duration of at least 10ms such as "10s"`,
	"requiredSignals":                  `a list of signals such as ["memory.available"]`,
	"rankVeto":                         `"soft", "always" or "never"`,
	"evictionHard":                     `quantities or percentages by signal, such as {"memory.available": "100Mi"}`,
	"evictionSoft":                     `quantities or percentages by signal, such as {"memory.available": "300Mi"}`,
	"evictionSoftGracePeriod":          `durations by signal, such as {"memory.available": "1m30s"}`,
	"evictionMinimumReclaim":           `quantities or percentages by signal, such as {"memory.available": "0Mi"}`,
	"evictionMaxPodGracePeriod":        `a whole number of seconds, at most 2147483647`,
	"evictionPressureTransitionPeriod": `a duration such as "5m0s"`,
	"mergeDefaultEvictionSettings":     `true or false`,
	"enforceNodeAllocatable":           `a list of "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", or "none" alone`,
	"kernelMemcgNotification":          `true or false`,
	"localStorageCapacityIsolation":    `true or false`,
	"featureGates":                     `true or false by feature gate, such as {"PodLevelResources": false}`,
	"layout":                           `"recheck" or "kubelet"`,
	"source":                           `"native" or "summary"`,
	"summary":                          `a mapping such as {"address": "https://127.0.0.1:10250", "layout": "shared"}`,
	// These are flags only.
	"nodeStatusUpdateFrequency":             `a duration above 0 such as "10s"`,
	"experimentalAllocatableIgnoreEviction": `true or false`,
	"housekeepingInterval":                  `a duration above 0 such as "10s"`,
	"plugins":                               `settings by plugin name, such as {"memory": {"autoMTLS": true}}`,
	"requirePins":                           `true or false`,
	"assign":                                `plugins by signal and capability, such as {"memory.available": {"rank": "oldest"}}`,
}

// entryForms says the same of one entry of a field that is a mapping.
var entryForms = map[string]string{
	"evictionHard":            `a quantity in quotes such as "100Mi" or a percentage such as "10%"`,
	"evictionSoft":            `a quantity in quotes such as "300Mi" or a percentage such as "10%"`,
	"evictionSoftGracePeriod": `a duration such as "1m30s"`,
	"evictionMinimumReclaim":  `a quantity in quotes such as "0Mi" or a percentage such as "5%"`,
	"featureGates":            `true or false`,
	"assign":                  `plugins by capability, such as {"rank": "oldest"}`,
	"plugins":                 `a mapping such as {"autoMTLS": false, "user": "nobody"}`,
}

// summaryForms says the same of the fields of summary.
var summaryForms = map[string]string{
	"address":            `https://HOST:PORT, unix:///PATH or file:///PATH`,
	"tokenFile":          `an absolute path`,
	"certFile":           `an absolute path`,
	"keyFile":            `an absolute path`,
	"caFile":             `an absolute path`,
	"serverName":         `a host name`,
	"insecureSkipVerify": `true or false`,
	"timeout":            `a duration below 1s such as "800ms"`,
	"layout":             `"shared", "imagefs" or "containerfs"`,
}

// pluginForms says the same of the fields of a plugin. Its config may be anything.
var pluginForms = map[string]string{
	"autoMTLS":     `true or false`,
	"disabled":     `true or false`,
	"sha256":       `the 64 hexadecimal digits that sha256sum prints, in quotes`,
	"user":         `the name or number of a user, in quotes`,
	"group":        `the name or number of a group, in quotes`,
	"capabilities": `a list of capabilities such as ["CAP_DAC_READ_SEARCH"], or [] for none`,
	"memoryLimit":  `a quantity of at least 16Mi such as "256Mi", or 0 for no limit`,
	"cpuLimit":     `a quantity of at least 10m such as "500m", or 0 for no limit`,
}

// want returns the form of what is at path.
func want(path []string) string {
	switch {
	case len(path) == 1:
		return forms[path[0]]
	case path[0] == "summary":
		return summaryForms[path[1]]
	case len(path) == 2:
		return entryForms[path[0]]
	case path[0] == "assign":
		return `the file name of a plugin such as "memory"`
	default:
		return pluginForms[path[2]]
	}
}

// wrong is the error of a field whose value cannot be.
func wrong(field, value string) error {
	return fmt.Errorf("%s: %s: want %s", field, shown(fmt.Sprintf("%q", value)), forms[field])
}

// maxShown is how much of a wrong value an error repeats, in bytes.
const maxShown = 80

func shown(value string) string {
	if len(value) > maxShown {
		return strings.ToValidUTF8(value[:maxShown], "") + "..."
	}
	return value
}

// pathString writes a path as the kubelet's errors do: fields with dots, keys of
// mappings, which have dots themselves, in brackets.
func pathString(path []string) string {
	var b strings.Builder
	for i, p := range path {
		p = shown(p)
		switch {
		case i == 0 && plain(p):
			b.WriteString(p)
		case (i == 2 && (path[0] == "plugins" || path[0] == "assign") || i == 1 && path[0] == "summary") && plain(p):
			b.WriteString("." + p)
		case i == 0:
			fmt.Fprintf(&b, "%q", p)
		default:
			fmt.Fprintf(&b, "[%q]", p)
		}
	}
	return b.String()
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// unknown is the error of a field that does not exist.
func unknown(path []string) error {
	of := reflect.TypeFor[Config]()
	switch {
	case len(path) > 1 && path[0] == "summary":
		of = reflect.TypeFor[Summary]()
	case len(path) > 1:
		of = reflect.TypeFor[Plugin]()
	}
	known := keysOf(of)
	name := path[len(path)-1]
	if k := slip.Nearest(name, known); k != "" {
		return fmt.Errorf("%s: unknown field, want %q", pathString(path), k)
	}
	slices.Sort(known)
	return fmt.Errorf("%s: unknown field, want one of %s", pathString(path), strings.Join(known, ", "))
}

// keysOf returns the keys that t has in the file.
func keysOf(t reflect.Type) []string {
	keys := make([]string, 0, t.NumField())
	for f := range t.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}
