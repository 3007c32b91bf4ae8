package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// A kind describes the valid values of fields of the same kind.
type kind struct {
	// wants describes valid values: of the field, of an entry in it, of an entry in that. %q is
	// replaced by the field's default.
	wants []string
	// ok reports whether a value of the right type is valid; nil if validate.go checks it. one is
	// the same for the i-th entry of a list.
	ok  func(value any) bool
	one func(list []string, i int) bool
	// zeroIsDefault replaces 0 by the default.
	zeroIsDefault bool
}

const (
	// minInterval keeps a wrong unit from causing constant load.
	minInterval = 10 * time.Millisecond
	// maxSummaryTimeout is the deadline of an observation: a longer fetch would make it late
	// without an explanation.
	maxSummaryTimeout = time.Second
	// maxSocketPath is the size of sun_path in unix(7) without the final NUL.
	maxSocketPath = 107
	maxFileName   = 255
	// MinMemoryLimit is the minimum for a plugin written in Go to start at all; it also catches a
	// forgotten unit, as in 256 bytes.
	MinMemoryLimit = 16 << 20
	// minMilliCPU is the kernel's minimum: 1 ms per 100 ms.
	minMilliCPU = 10

	wantSignal = `one of the kubelet's signals such as "memory.available", or a domain-qualified one such as "acme.example/nvme.spare"`
)

// kinds maps the names in the tags to kinds.
var kinds = map[string]kind{
	"any":  {wants: []string{"anything"}},
	"name": {wants: []string{`a node name in quotes, such as "node-1"`}, ok: is(func(s string) bool { return !strings.ContainsFunc(s, control) })},
	"path": {wants: []string{`an absolute path such as %q`}, ok: is(func(s string) bool { return filepath.IsAbs(s) && !strings.ContainsFunc(s, control) })},
	"paths": {wants: []string{`a list of absolute paths such as ["/var/cache/example"]`, `an absolute path such as "/var/cache/example"`}, one: func(list []string, i int) bool {
		return filepath.IsAbs(list[i]) && !strings.ContainsFunc(list[i], control)
	}},
	"path?":    {wants: []string{`an absolute path, or "" for none`}, ok: is(validPlace)},
	"kubelet?": {wants: []string{`"running", an absolute path, or "" for none`}, ok: is(func(s string) bool { return s == BesideRunning || validPlace(s) })},
	"socket":   {wants: []string{`a socket such as "unix:///run/containerd/containerd.sock"`}, ok: is(validEndpoint)},
	"address?": {wants: []string{`an IP address and a port such as "127.0.0.1:10269", or "" for none`}, ok: is(func(s string) bool { return s == "" || validListen(s) })},

	"interval":  {wants: []string{`a duration of at least 10ms such as %q`}, ok: is(func(d metav1.Duration) bool { return d.Duration >= minInterval })},
	"frequency": {wants: []string{`a duration above 0 such as %q`}, ok: is(func(d metav1.Duration) bool { return d.Duration > 0 })},
	// 0 means the default, as in the kubelet, since a condition would never be reported with it
	// (pkg/kubelet/apis/config/v1beta1/defaults.go).
	"period":  {wants: []string{`a duration such as %q`}, ok: is(func(d metav1.Duration) bool { return d.Duration >= 0 }), zeroIsDefault: true},
	"age":     {wants: []string{`a duration of at least 1h such as %q`}, ok: is(func(d metav1.Duration) bool { return d.Duration >= time.Hour })},
	"records": {wants: []string{`a quantity from 1Mi to 16Gi such as %q`}, ok: is(func(q resource.Quantity) bool { return q.Value() >= 1<<20 && q.Value() <= 16<<30 })},
	"timeout": {wants: []string{`a duration below 1s such as %q`}, ok: is(func(d metav1.Duration) bool { return d.Duration > 0 && d.Duration < maxSummaryTimeout }), zeroIsDefault: true},
	"top":     {wants: []string{`a whole number of pods from 0 to 500`}, ok: is(func(n int32) bool { return n >= 0 && n <= 500 })},
	"seconds": {wants: []string{`a whole number of seconds, at most 2147483647`}},

	"hard":    {wants: []string{`quantities or percentages by signal, such as {"memory.available": "100Mi"}`, `a quantity in quotes such as "100Mi" or a percentage such as "10%"`}},
	"soft":    {wants: []string{`quantities or percentages by signal, such as {"memory.available": "300Mi"}`, `a quantity in quotes such as "300Mi" or a percentage such as "10%"`}},
	"graces":  {wants: []string{`durations by signal, such as {"memory.available": "1m30s"}`, `a duration such as "1m30s"`}},
	"reclaim": {wants: []string{`quantities or percentages by signal, such as {"memory.available": "0Mi"}`, `a quantity in quotes such as "0Mi" or a percentage such as "5%"`}},
	"gates":   {wants: []string{`true or false by feature gate, such as {"PodLevelResources": false}`, `true or false`}},
	"signals": {wants: []string{`a list of signals such as ["memory.available"]`, wantSignal}, one: func(list []string, i int) bool { return validSignal(list[i]) }},
	// The kubelet's values (pkg/kubelet/types/constants.go); only pods has an effect here.
	"allocatables": {
		wants: slices.Repeat([]string{`a list of "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", or "none" alone`}, 2),
		one: func(list []string, i int) bool {
			known := []string{"pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible"}
			return slices.Contains(known, list[i]) || list[i] == "none" && len(list) == 1
		},
	},

	"summary": {wants: []string{`a mapping such as {"kubeconfig": "/etc/evictd/kubelet.kubeconfig", "layout": "shared"}`}},
	"file":    {wants: []string{`the absolute path of a kubeconfig whose server is the kubelet`}, ok: is(validPlace)},

	"plugins":    {wants: []string{`settings by plugin name, such as {"memory": {"autoMTLS": true}}`, `a mapping such as {"autoMTLS": false, "user": "nobody"}`}},
	"assignment": {wants: []string{`plugins by signal and capability, such as {"memory.available": {"rank": "oldest"}}`, `plugins by capability, such as {"rank": "oldest"}`, `the file name of a plugin such as "memory"`}},
	"sha256": {wants: []string{`the 64 hexadecimal digits that sha256sum prints, in quotes`}, ok: is(func(s string) bool {
		hash, err := hex.DecodeString(s)
		return err == nil && len(hash) == 32
	})},
	"user":  {wants: []string{`the name or number of a user, in quotes`}, ok: is(validAccount)},
	"group": {wants: []string{`the name or number of a group, in quotes`}, ok: is(validAccount)},
	"capabilities": {wants: []string{`a list of capabilities such as ["CAP_DAC_READ_SEARCH"], or [] for none`, `one of capabilities(7) such as "CAP_SYS_ADMIN"`}, one: func(list []string, i int) bool {
		_, unknown := sandbox.ParseCapabilities(list[i : i+1])
		return unknown == nil
	}},
	"memory": {wants: []string{`a quantity of at least 16Mi such as "256Mi", or 0 for no limit`}, ok: is(func(q resource.Quantity) bool { return q.IsZero() || q.Value() >= MinMemoryLimit })},
	"cpu":    {wants: []string{`a quantity of at least 10m such as "500m", or 0 for no limit`}, ok: is(func(q resource.Quantity) bool { return q.IsZero() || q.MilliValue() >= minMilliCPU })},
}

func is[T any](ok func(T) bool) func(any) bool { return func(value any) bool { return ok(value.(T)) } }

// oneOf returns the kind of a field with a few valid texts.
func oneOf(texts []string, orNothing bool) kind {
	quoted := make([]string, 0, len(texts))
	for _, t := range texts {
		quoted = append(quoted, strconv.Quote(t))
	}
	want := quoted[0]
	if last := len(quoted) - 1; last > 0 {
		want = strings.Join(quoted[:last], ", ") + " or " + quoted[last]
	}
	return kind{wants: []string{want}, ok: is(func(s string) bool { return slices.Contains(texts, s) || orNothing && s == "" })}
}

// check returns what is wrong with a value of the field.
func (f field) check(path []string, at reflect.Value) []error {
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return nil
		}
		at = at.Elem()
	}
	value := at.Interface()
	if f.kind.ok != nil && !f.kind.ok(value) {
		return []error{wrong(steps(path), strconv.Quote(text(value)), f.want())}
	}
	var errs []error
	if list, ok := value.([]string); ok && f.kind.one != nil {
		for i := range list {
			if !f.kind.one(list, i) {
				errs = append(errs, wrong(append(steps(path), "["+strconv.Itoa(i)+"]"), strconv.Quote(list[i]), f.kind.wants[1]))
			}
		}
	}
	return errs
}

func text(value any) string {
	switch value := value.(type) {
	case metav1.Duration:
		return value.Duration.String()
	case resource.Quantity:
		return value.String()
	default:
		return fmt.Sprint(value)
	}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func validPlace(path string) bool {
	return path == "" || filepath.IsAbs(path) && !strings.ContainsFunc(path, control)
}

func validEndpoint(endpoint string) bool {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	return ok && filepath.IsAbs(path) && path != "/" && len(path) <= maxSocketPath && !strings.ContainsFunc(path, control)
}

// validListen accepts addresses but no names: resolving one at start could fail or return an
// unexpected address.
func validListen(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	if host == "" || host == "localhost" {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

func validSignal(name string) bool {
	s := eviction.Signal(name)
	_, builtin := eviction.Builtin(s)
	return builtin || s.ValidCustom() == nil
}

func validPluginName(name string) bool {
	return name != "" && len(name) <= maxFileName && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".tmp") &&
		!strings.Contains(name, "/") && !strings.ContainsFunc(name, control)
}

func validAccount(who string) bool {
	return who != "" && !strings.ContainsFunc(who, func(r rune) bool { return control(r) || r == ':' || r == ' ' })
}
