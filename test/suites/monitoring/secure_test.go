package monitoring

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// startAPI starts an API server that has no pods, knows the tokens "scraper" and "other", and lets
// the first get /metrics. It returns the path of a kubeconfig.
func startAPI(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Spec struct {
				Token, User           string
				NonResourceAttributes struct{ Path, Verb string }
			}
		}
		if r.Body != nil {
			_ = json.NewDecoder(r.Body).Decode(&asked)
		}
		answer := func(version, kind, field string, value any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, field: value})
		}
		switch spec := asked.Spec; {
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			known := spec.Token == "scraper" || spec.Token == "other"
			answer("authentication.k8s.io/v1", "TokenReview", "status", map[string]any{"authenticated": known, "user": map[string]any{"username": spec.Token}})
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			allowed := spec.User == "scraper" && spec.NonResourceAttributes.Verb == "get" && spec.NonResourceAttributes.Path == "/metrics"
			answer("authorization.k8s.io/v1", "SubjectAccessReview", "status", map[string]any{"allowed": allowed})
		default:
			answer("v1", "PodList", "items", []any{})
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections() // of watches
		s.Close()
	})
	named := func(what string, value any) []map[string]any { return []map[string]any{{"name": "c", what: value}} }
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": named("cluster", map[string]any{"server": s.URL}),
		"users": named("user", map[string]any{}), "contexts": named("context", map[string]any{"cluster": "c", "user": "c"}),
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A real Prometheus scrapes a real evictd by TLS with a token that the API server lets, and with no
// other one. Meanwhile the commands of the node need none.
func TestPrometheusScrapesFromElsewhereWithAToken(t *testing.T) {
	prometheus := program(t, "prometheus")
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	node, runtime := daemon.NewNode(t, 8<<30), fakecri.Start(t)
	d := daemon.Start(t, map[string]any{
		"rootDir": node.Root, "runtimeEndpoint": runtime.Endpoint(), "evictionHard": map[string]string{"memory.available": "1Gi"},
		"mode": "kubernetes", "kubeconfig": startAPI(t), "metricsBindAddress": "0.0.0.0:0",
	})
	d.AwaitReady()
	_, port, err := net.SplitHostPort(d.Address("metrics"))
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, token := range []string{"scraper", "other", "made-up"} {
		jobs = append(jobs, fmt.Sprintf("{job_name: %s, scheme: https, tls_config: {insecure_skip_verify: true}, authorization: {credentials: %s}, static_configs: [{targets: [%q]}]}",
			token, token, net.JoinHostPort(evictd.Elsewhere(t), port)))
	}
	p := startPrometheus(t, prometheus, strings.Join(jobs, ", "))
	p.await(t, "a scrape", func() bool { return len(p.query(t, `evictd_passes_total{job="scraper"}`)) == 1 })
	p.await(t, "two refusals", func() bool {
		targets := p.get(t, "targets", "")
		return strings.Contains(targets, "403 Forbidden") && strings.Contains(targets, "401 Unauthorized")
	})
	if found := p.query(t, `evictd_passes_total`); len(found) != 1 {
		t.Errorf("%d jobs have metrics, want one", len(found))
	}
	if out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "plugins", "--run-dir", d.RunDir).CombinedOutput(); err != nil || !strings.Contains(string(out), "memory") {
		t.Errorf("evictctl plugins: %v\n%s", err, out)
	}
}
