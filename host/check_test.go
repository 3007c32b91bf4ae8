package host

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Of a pod on the host's network that did not reach the API server check said "dial tcp
// 10.96.0.1:443: i/o timeout" alone.
func TestCheckSaysWhereTheAPIServerOfAPodIsConfigured(t *testing.T) {
	away := fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://10.96.0.1:443", Err: errors.New("i/o timeout")})
	for name, c := range map[string]struct {
		kubeconfig string
		err        error
		want       bool
	}{
		"a pod":             {"", away, true},
		"on the host":       {"/etc/evictd/kubeconfig", away, false},
		"it answers and no": {"", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")), false},
	} {
		got := wantReachable(c.kubeconfig, c.err)
		if !errors.Is(got, c.err) || strings.Contains(got.Error(), "apiServer.host and apiServer.port of the chart") != c.want {
			t.Errorf("%s: %v, want the chart's values %t", name, got, c.want)
		}
	}
}
