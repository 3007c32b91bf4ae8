package config

import (
	"fmt"
	"reflect"
	"regexp"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// A threshold of "abc" in the chart's values was deployed, and each evictd ended at its start. What evictd refuses of a key, the
// schema of the chart's values refuses before, and nothing else.
func TestTheChartRefusesWhatEvictdRefuses(t *testing.T) {
	const file = "../../../../deploy/chart/values.schema.json"
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	leftOut := func(f field) bool { return schema.Properties["config"].Properties[f.name].Const != nil }
	values := []string{
		`""`, `abc`, `"5"`, `5`, `-1`, `0`, `1.5`, `501`, `99999999999`, `true`, `[]`, `[x]`, `[pods]`, `[none]`, `[memory.available]`, `[acme.example/x]`, `{}`, `{a: b}`, `{PodLevelResources: false}`,
		`10%`, `1Gi`, `64Mi`, `1m30s`, `1h`, `720h`, `5`, `"0"`, `/`, `/etc/x`, `x/y`, `running`, `unix:///run/x.sock`, `unix://`, `unix:///`, `127.0.0.1:1`, `":1"`, `host:1`, `0.0.0.0:99999`,
		`{memory.available: {rank: oldest}}`, `{memory.available: oldest}`, `{memory.available: {rank: 5}}`,
	}
	for _, amount := range []string{`abc`, `""`, `5`, `"5"`, `5%`, `0%`, `0.5%`, `.5%`, `5%%`, `"%"`, `100%`, `1Gi`, `1.5Gi`, `.5Gi`, `1.`, `1 Gi`, `1gi`, `1GiB`, `1e9`, `1E3`, `2m`, `+5`, `90s`, `1m30s`, `1h`, `5x`, `-1m`, `"0"`, `0s`} {
		for _, signal := range []string{"memory.available", "acme.example/x", "memory.free"} {
			values = append(values, fmt.Sprintf("{%s: %s}", signal, amount))
		}
	}
	// The schema leaves ranges and names of hosts to evictd.
	left := regexp.MustCompile("must be positive|want a quantity from|want a duration of at least|want an IP address")
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if leftOut(f) {
			continue
		}
		for _, value := range values {
			text := f.name + ": " + value
			var of any
			if err := yaml.Unmarshal([]byte("config: {"+text+"}"), &of); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			refused := schema.Validate(of)
			if f.name == "evictionSoft" {
				text += "\nevictionSoftGracePeriod: {memory.available: 1m, acme.example/x: 1m}"
			}
			_, err := Load(write(t, text+"\n"))
			if err == nil && refused != nil || err != nil && refused == nil && !left.MatchString(err.Error()) {
				t.Errorf("%s: evictd says %v, the schema %v", text, err, refused)
			}
		}
	}
}
