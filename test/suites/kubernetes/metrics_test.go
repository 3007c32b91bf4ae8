package kubernetes_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A real API server says who may read the metrics of a node from elsewhere; with the account's
// rights and with the kubelet's credentials it may be asked.
func TestMetricsAreForThoseWhomTheAPIServerLets(t *testing.T) {
	c := start(t, cluster.Options{})
	kubeconfig := account(t, c)
	must(t, c.Apply(soon(t), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: prometheus, namespace: evictd}}`))
	must(t, c.Apply(soon(t), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: other, namespace: evictd}}`))
	_, err := c.Kubectl(soon(t), "", "create", "clusterrolebinding", "prometheus-evictd", "--clusterrole", "evictd-metrics-reader", "--serviceaccount", "evictd:prometheus")
	must(t, err)
	tokenOf := func(account string) string {
		token, err := c.Token(soon(t), "evictd", account, nil)
		must(t, err)
		return token
	}
	prometheus, other := tokenOf("prometheus"), tokenOf("other")
	hard := map[string]any{"evictionHard": map[string]any{"memory.available": "1Mi"}, "metricsBindAddress": "0.0.0.0:0", "dryRun": true}

	p := beside(t, c, kubeconfig, hard)
	if code := metricsCode(t, p.Address("metrics"), "/metrics", prometheus); code != http.StatusServiceUnavailable {
		t.Errorf("without deploy/rbac/metrics.yaml %d", code)
	}
	_, err = c.Kubectl(soon(t), "", "apply", "-f", "../../../deploy/rbac/metrics.yaml")
	must(t, err)
	for ctx := soon(t); metricsCode(t, p.Address("metrics"), "/metrics", prometheus) != http.StatusOK; { // what changes of a role takes a moment
		must(t, stack.Pause(ctx, 250*time.Millisecond)) // evictd takes 10 handshakes a second of a peer
	}
	must(t, p.Stop())

	p = beside(t, c, c.KubeletKubeconfig, hard)
	for _, r := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", prometheus, 200}, {"/status", prometheus, 403}, {"/metrics", other, 403}, {"/metrics", prometheus + "x", 401}, {"/metrics", "", 401}, {"/healthz", "", 401},
	} {
		if code := metricsCode(t, p.Address("metrics"), r.path, r.token); code != r.want {
			t.Errorf("%s with a token of %d bytes: %d, want %d", r.path, len(r.token), code, r.want)
		}
	}
	must(t, p.Stop())
}

// The chart gives evictd the rights, and a pod is ready by a probe without a token.
func TestTheChartServesMetricsToOtherMachines(t *testing.T) {
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	port, err := cluster.FreePort(t.Context())
	must(t, err)
	metrics := fmt.Sprintf("0.0.0.0:%d", port)
	h.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "evictionHard": map[string]any{"memory.available": "1Mi"}, "healthzBindAddress": h.probed, "metricsBindAddress": metrics,
	}
	h.helm(t, "install")
	must(t, c.Apply(soon(t), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: prometheus, namespace: evictd}}`))
	_, err = c.Kubectl(soon(t), "", "create", "clusterrolebinding", "prometheus-evictd", "--clusterrole", "evictd-metrics-reader", "--serviceaccount", "evictd:prometheus")
	must(t, err)
	token, err := c.Token(soon(t), "evictd", "prometheus", nil)
	must(t, err)
	if code := metricsCode(t, metrics, "/metrics", ""); code != http.StatusUnauthorized {
		t.Errorf("without a token %d", code)
	}
	for ctx := soon(t); metricsCode(t, metrics, "/metrics", token) != http.StatusOK; {
		must(t, stack.Pause(ctx, 250*time.Millisecond)) // evictd takes 10 handshakes a second of a peer
	}
	h.helm(t, "uninstall")
}

// metricsCode asks evictd for a page by an address that is not of the loopback device.
func metricsCode(t *testing.T, address, path, token string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	request, err := http.NewRequestWithContext(soon(t), http.MethodGet, "https://"+net.JoinHostPort(evictd.Elsewhere(t), port)+path, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}
