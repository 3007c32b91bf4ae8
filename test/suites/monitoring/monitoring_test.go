// Package monitoring has what Prometheus makes of evictd's metrics with the alerts and the
// dashboard of deploy/chart/files.
package monitoring

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

const deployed = "../../../deploy/chart/files/"

// An alert is a rule of alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(read(t, deployed+"alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// queries are those of the dashboard, by panel, with a node and a range in place of its variables, and those of the document.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, deployed+"dashboard.json"), &file); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range file.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$instance", ".*", "$__range", "1h").Replace(q.Expr))
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(.*\\(.*\\))` \\|$").FindAllSubmatch(read(t, "../../../docs/monitoring.md"), -1) {
		all[string(row[1])] = []string{string(row[2])}
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content := testos.ReadFile(t, name)
	return content
}

// A metric that was renamed would leave an alert that never fires.
func TestMetricsOfAlertsAreDocumented(t *testing.T) {
	reported := map[string]bool{"up": true}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:evictd|kubelet)_[a-z_]+)`").FindAllSubmatch(read(t, "../../../docs/operations.md"), -1) {
		reported[string(m[1])] = true
	}
	exprs := queries(t)
	doc := string(read(t, "../../../docs/monitoring.md"))
	for _, a := range alerts(t) {
		exprs[a.Alert] = []string{a.Expr}
		if !strings.Contains(doc, "\n### "+a.Alert+"\n") || a.Annotations["runbook_url"] != "https://github.com/evictd/evictd/blob/main/docs/monitoring.md#"+strings.ToLower(a.Alert) {
			t.Errorf("%s: docs/monitoring.md does not say what to do, or is not where %s leads", a.Alert, a.Annotations["runbook_url"])
		}
	}
	names := 0
	for where, all := range exprs {
		for _, expr := range all {
			for _, name := range regexp.MustCompile(`(?:evictd|kubelet)_[a-z_]+`).FindAllString(expr, -1) {
				names++
				for _, end := range []string{"_bucket", "_count", "_sum"} {
					if base, ok := strings.CutSuffix(name, end); ok {
						name = base
					}
				}
				if !reported[name] {
					t.Errorf("%s: %s is no metric of docs/operations.md", where, name)
				}
			}
		}
	}
	if names < 30 {
		t.Errorf("%d names are looked at", names)
	}
}

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs Prometheus: run make test")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachAlertFiresForWhatItIsAbout(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), program(t, "promtool"), "test", "rules", "alerts.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, a := range alerts(t) {
		if !strings.Contains(string(read(t, "alerts.yaml")), "\n  - name: "+a.Alert+"\n") {
			t.Errorf("nothing tests %s", a.Alert)
		}
	}
}

// A real Prometheus scrapes a real evictd, takes the rules and answers what the dashboard asks.
func TestPrometheusTakesAllOfIt(t *testing.T) {
	prometheus := program(t, "prometheus")
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	node, runtime := daemon.NewNode(t, 8<<30), fakecri.Start(t)
	d := daemon.Start(t, map[string]any{
		"rootDir": node.Root, "runtimeEndpoint": runtime.Endpoint(), "podManifestDir": t.TempDir(), "metricsBindAddress": "127.0.0.1:0", "evictionHard": map[string]string{"memory.available": "1Gi"},
		"besideKubelet": "/nonexistent", // a finding
	})
	d.AwaitReady()
	p := startPrometheus(t, prometheus, fmt.Sprintf("{job_name: evictd, static_configs: [{targets: [%q]}]}", d.Address("metrics")))
	p.await(t, "the target", func() bool { return strings.Contains(p.get(t, "targets", ""), `"health":"up"`) })
	p.await(t, "two scrapes", func() bool { return len(p.query(t, "rate(evictd_passes_total[5m])")) == 1 })

	rules := p.get(t, "rules", "")
	for _, a := range alerts(t) {
		if !strings.Contains(rules, `"name":"`+a.Alert+`"`) {
			t.Errorf("%s was not loaded", a.Alert)
		}
	}
	if strings.Contains(rules, `"lastError":"`) {
		t.Errorf("a rule cannot be evaluated: %s", rules)
	}
	for _, a := range alerts(t) {
		for _, f := range regexp.MustCompile(`(?:increase|rate)\(([^[]+)\[`).FindAllStringSubmatch(a.Expr, -1) {
			if len(p.query(t, f[1])) == 0 {
				t.Errorf("%s: %s is not there before the first event, which raises no alert then", a.Alert, f[1])
			}
		}
	}
	for title, all := range queries(t) {
		for _, q := range all {
			found := p.query(t, q)
			t.Logf("  %-52s %d series", title, len(found))
			// Conditions, failed calls and pods that are measured have nothing on a node that is well, and here is no kubelet.
			if !regexp.MustCompile(`evictd_node_condition|call_failures|evictd_pod_usage|job="kubelet"`).MatchString(q) && len(found) == 0 {
				t.Errorf("%s: %s finds nothing", title, q)
			}
		}
	}
}

// A server is a Prometheus that runs.
type server struct{ address string }

func startPrometheus(t *testing.T, program, jobs string) server {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(deployed + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs: [%s]
`, rules, jobs)
	file := filepath.Join(dir, "prometheus.yaml")
	testos.WriteFile(t, file, config, 0o600)
	cmd := exec.CommandContext(t.Context(), program, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it is killed when the test's context ends
	var said strings.Builder
	lines := bufio.NewScanner(stderr)
	address, ready := "", false
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if m := regexp.MustCompile(`msg="Listening on" address=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		ready = ready || strings.Contains(lines.Text(), "ready to receive web requests")
		if ready && address != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return server{address}
		}
	}
	t.Fatalf("Prometheus is not ready:\n%s", &said)
	return server{}
}

// get returns the API's answer at a path.
func (s server) get(t *testing.T, path, query string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/api/v1/"+path+"?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %d %v\n%s", path, query, answer.StatusCode, err, text)
	}
	return string(text)
}

// query returns the series that an expression finds now.
func (s server) query(t *testing.T, expr string) []json.RawMessage {
	t.Helper()
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(s.get(t, "query", url.Values{"query": {expr}}.Encode())), &answer); err != nil {
		t.Error(err)
	}
	return answer.Data.Result
}

func (s server) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("it does not come"))
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
