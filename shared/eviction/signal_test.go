package eviction_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestOwnSignalNames(t *testing.T) {
	for signal, want := range map[eviction.Signal]string{
		"acme.example/nvme.spare":     "",
		"a.b/c":                       "",
		"nvme.spare":                  "domain-qualified",
		"acme/nvme.spare":             "domain-qualified",
		"acme.example/":               "domain-qualified",
		"":                            "domain-qualified",
		"memory.available":            "domain-qualified",
		"kubernetes.io/nvme":          "domain of Kubernetes",
		"eviction.kubernetes.io/nvme": "domain of Kubernetes",
		"k8s.io/nvme":                 "domain of Kubernetes",
		"x.k8s.io/nvme":               "domain of Kubernetes",
		"notk8s.io/nvme":              "",
		"acme.example/nvme spare":     "character ' '",
		"acme.example/nvme\n":         `character '\n'`,
		"acme.example/größe":          "character 'ö'",
		"acme.example/nvme<spare":     "character '<'",
		"acme.example/nvme,spare":     "character ','",
		"acme.example/nvme=spare":     "character '='",
		"acme.example/nvme/spare":     "character '/'",
		"acme.example/nvme:spare":     "character ':'",
		"Acme-2.example/NVMe_spare":   "",
		"acme.example/\xff":           "character",
		eviction.Signal("a.b/" + strings.Repeat("x", 249)): "",
		eviction.Signal("a.b/" + strings.Repeat("x", 250)): "at most 253",
	} {
		t.Run(string(signal), func(t *testing.T) { wantError(t, signal.ValidCustom(), want) })
	}
}

func TestOwnDefinitions(t *testing.T) {
	good := eviction.Definition{
		Unit:      "blocks",
		Format:    eviction.FormatDecimalSI,
		Resource:  "acme.example/nvme",
		Condition: "acme.example/NVMePressure",
	}
	for name, c := range map[string]struct {
		change func(*eviction.Definition)
		want   string
	}{
		"complete":                 {func(*eviction.Definition) {}, ""},
		"no unit":                  {func(d *eviction.Definition) { d.Unit = "" }, "unit is empty"},
		"no format":                {func(d *eviction.Definition) { d.Format = "" }, `format ""`},
		"a format of its own":      {func(d *eviction.Definition) { d.Format = "Roman" }, `format "Roman"`},
		"the kubelet's resource":   {func(d *eviction.Definition) { d.Resource = "memory" }, `resource "memory"`},
		"the kubelet's condition":  {func(d *eviction.Definition) { d.Condition = eviction.MemoryPressure }, `condition "MemoryPressure"`},
		"a condition of k8s.io":    {func(d *eviction.Definition) { d.Condition = "k8s.io/X" }, "domain of Kubernetes"},
		"a resource without words": {func(d *eviction.Definition) { d.Resource = "" }, "resource"},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			c.change(&d)
			wantError(t, d.ValidCustom(), c.want)
		})
	}
}

func TestEveryBuiltinSignalHasADefinitionAndNoOwnName(t *testing.T) {
	for _, s := range eviction.BuiltinSignals() {
		d, ok := eviction.Builtin(s)
		if !ok || d.Unit == "" || d.Format == "" || d.Resource == "" || d.Condition == "" {
			t.Errorf("Builtin(%s) = %+v, %v, want all of it", s, d, ok)
		}
		if s.ValidCustom() == nil {
			t.Errorf("%s is accepted as a custom signal", s)
		}
	}
	if d, ok := eviction.Builtin("acme.example/nvme"); ok || d != (eviction.BuiltinSignal{}) {
		t.Errorf("a custom signal is built-in: %+v", d)
	}
}

// wantError checks that err contains want, or is nil if want is empty.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want an error with %q", err, want)
	}
}
