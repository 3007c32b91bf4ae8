package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/shared/testos"
)

// A server notes requests and answers with what answer returns.
type server struct {
	*httptest.Server
	answer func(r *http.Request, body []byte) (int, any)

	mu    sync.Mutex
	asked []string
	log   bytes.Buffer // of a client
}

func newServer(t *testing.T, answer func(r *http.Request, body []byte) (int, any)) *server {
	s := &server{answer: answer}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path+" "+r.URL.RawQuery+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type"))
	s.mu.Unlock()
	code, answer := s.answer(r, body)
	object, is := answer.(runtime.Object)
	if is && strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.WriteHeader(code)
		_ = protobuf.NewSerializer(nil, nil).Encode(object, w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// kubeconfig puts one that names the server and a token in place of the one at path.
func (s *server) kubeconfig(t *testing.T, path, token string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	named := func(name, what string, value any) []map[string]any {
		return []map[string]any{{"name": name, what: value}}
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": named("c", "cluster", map[string]any{"server": s.URL, "certificate-authority-data": ca}),
		"users":    named("c", "user", map[string]any{"token": token}),
		"contexts": named("c", "context", map[string]any{"cluster": "c", "user": "c"}),
	})
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) client(t *testing.T) (c *Client, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	s.kubeconfig(t, path, "one")
	c, err := New(Options{Kubeconfig: path, NodeName: "node-1", UserAgent: "evictd/test", Log: slog.New(slog.NewTextHandler(&s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

func typed(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

func TestTheStatusOfAPodIsPatched(t *testing.T) {
	s := newServer(t, func(_ *http.Request, body []byte) (int, any) {
		if string(body) != `{"status":{"phase":"Failed"}}` {
			return http.StatusBadRequest, metav1.Status{TypeMeta: typed("Status"), Message: string(body)}
		}
		return http.StatusOK, &v1.Pod{TypeMeta: typed("Pod"), ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	})
	c, _ := s.client(t)
	for dryRun, want := range map[bool]string{
		false: "PATCH /api/v1/namespaces/ns/pods/p/status fieldManager=evictd Bearer one application/strategic-merge-patch+json",
		true:  "PATCH /api/v1/namespaces/ns/pods/p/status dryRun=All&fieldManager=evictd Bearer one application/strategic-merge-patch+json",
	} {
		pod, err := c.PatchPodStatus(t.Context(), "ns", "p", []byte(`{"status":{"phase":"Failed"}}`), dryRun)
		if err != nil || pod.Name != "p" {
			t.Errorf("%v, %v", pod, err)
		}
		if s.last() != want {
			t.Errorf("asked %q, want %q", s.last(), want)
		}
	}
}

func TestWhatTheAPIServerRefusesIsSaid(t *testing.T) {
	refused := apierrors.NewForbidden(v1.Resource("pods"), "p", io.EOF).Status()
	refused.TypeMeta = typed("Status")
	s := newServer(t, func(*http.Request, []byte) (int, any) { return http.StatusForbidden, refused })
	c, _ := s.client(t)
	if _, err := c.PatchPodStatus(t.Context(), "ns", "p", nil, false); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `pods "p" is forbidden`) {
		t.Errorf("%v", err)
	}
}

func TestOnlyTheNodesPodsAreAskedFor(t *testing.T) {
	s := newServer(t, func(*http.Request, []byte) (int, any) {
		return http.StatusOK, &v1.PodList{TypeMeta: typed("PodList"), Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}}
	})
	c, _ := s.client(t)
	list, err := c.ListPods(t.Context(), metav1.ListOptions{Limit: 5})
	if err != nil || len(list.(*v1.PodList).Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	w, err := c.WatchPods(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	want := "GET /api/v1/pods fieldSelector=spec.nodeName%3Dnode-1&"
	for _, asked := range s.asked {
		if !strings.HasPrefix(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
	if !strings.Contains(s.last(), "watch=true") || !strings.Contains(s.last(), "resourceVersion=7") {
		t.Errorf("asked %q for a watch", s.last())
	}
}

// A volume follows its ConfigMap within a minute or so, a watch at once; the account may see this one alone.
func TestAConfigMapIsFollowed(t *testing.T) {
	configMap := func(version, text string) v1.ConfigMap {
		return v1.ConfigMap{TypeMeta: typed("ConfigMap"), ObjectMeta: metav1.ObjectMeta{Name: "evictd", ResourceVersion: version}, Data: map[string]string{"evictd.yaml": text}}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := newServer(t, func(r *http.Request, _ []byte) (int, any) {
		switch query := r.URL.Query(); {
		case query.Get("sendInitialEvents") != "":
			return http.StatusBadRequest, metav1.Status{TypeMeta: typed("Status"), Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		case query.Get("watch") == "":
			return http.StatusOK, v1.ConfigMapList{TypeMeta: typed("ConfigMapList"), ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []v1.ConfigMap{configMap("7", "first")}}
		case query.Get("resourceVersion") == "7":
			return http.StatusOK, map[string]any{"type": "MODIFIED", "object": configMap("8", "second")}
		default:
			<-r.Context().Done()
			return http.StatusOK, nil
		}
	})
	c, _ := s.client(t)
	var texts []string
	c.FollowConfigMap(ctx, ConfigMap{Namespace: "ns", Name: "evictd", Selector: "evictd.io/pods=1", Changed: func(_ context.Context, data map[string]string) {
		if texts = append(texts, data["evictd.yaml"]); len(texts) == 2 {
			stop()
		}
	}})
	if diff := cmp.Diff([]string{"first", "second"}, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if !strings.HasPrefix(asked, "GET /api/v1/namespaces/ns/configmaps ") || !strings.Contains(asked, "fieldSelector=metadata.name%3Devictd&") || !strings.Contains(asked, "labelSelector=evictd.io%2Fpods%3D1&") {
			t.Errorf("asked %q", asked)
		}
	}
}

// check hung, and the running daemon under the mutex of its client.
func TestAKubeconfigThatHangsIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, path := filepath.Join(dir, "pipe"), filepath.Join(dir, "kubeconfig")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{pipe: pipe + ": is a pipe, want a regular file", "/dev/zero": "/dev/zero: is a device, want a regular file"} {
		if _, err := New(Options{Kubeconfig: file}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, names := range []string{
		"clusters: [{name: c, cluster: {certificate-authority: pipe}}]", "users: [{name: u, user: {client-certificate: pipe}}]",
		"users: [{name: u, user: {client-key: pipe}}]", "users: [{name: u, user: {tokenFile: pipe}}]",
	} {
		testos.WriteFile(t, path, names, 0o600)
		if _, err := New(Options{Kubeconfig: path}); err == nil || err.Error() != path+" names "+pipe+": is a pipe, want a regular file" {
			t.Errorf("%s: %v", names, err)
		}
	}
}

func TestAKubeconfigIsFollowed(t *testing.T) {
	s := newServer(t, func(*http.Request, []byte) (int, any) { return http.StatusOK, &v1.PodList{TypeMeta: typed("PodList")} })
	c, path := s.client(t)
	with := func(token string) {
		t.Helper()
		if _, err := c.ListPods(t.Context(), metav1.ListOptions{}); err != nil || !strings.Contains(s.last(), "Bearer "+token+" ") {
			t.Errorf("asked %q, %v; want it with token %q", s.last(), err, token)
		}
	}
	with("one")
	s.kubeconfig(t, path, "another")
	with("another")
	if err := os.WriteFile(path, []byte("users: ["), 0o600); err != nil { // half written
		t.Fatal(err)
	}
	with("another")
	with("another")
	if got := strings.Count(s.log.String(), "kubeconfig was replaced and cannot be used"); got != 1 {
		t.Errorf("told %d times, want once:\n%s", got, &s.log)
	}
	testos.Remove(t, path)
	with("another")
	s.kubeconfig(t, path, "last")
	with("last")
}

func TestAKubeconfigThatIsNoneIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	testos.WriteFile(t, empty, "", 0o600)
	for path, want := range map[string]string{
		"/nowhere": "stat /nowhere: no such file or directory",
		empty:      "no configuration has been provided",
		"":         "no kubeconfig is given and there is no ServiceAccount here",
	} {
		if _, err := New(Options{Kubeconfig: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestRightsAreAskedFor(t *testing.T) {
	s := newServer(t, func(r *http.Request, body []byte) (int, any) {
		review := authorizationv1.SelfSubjectAccessReview{}
		if err := json.Unmarshal(body, &review); err != nil || r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
			return http.StatusBadRequest, metav1.Status{TypeMeta: typed("Status"), Message: r.URL.Path}
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed, review.Status.Reason = a.Verb == "patch" && a.Resource == "pods" && a.Subresource == "status" || a.Verb == "create" && a.Group == "authentication.k8s.io" && a.Resource == "tokenreviews", "by a role"
		return http.StatusCreated, review
	})
	c, _ := s.client(t)
	allowed, reason, err := c.SelfSubjectAccessReview(t.Context(), "patch", "pods", "status", "")
	if err != nil || !allowed || reason != "by a role" {
		t.Errorf("%t, %q, %v", allowed, reason, err)
	}
	if allowed, _, err := c.SelfSubjectAccessReview(t.Context(), "create", "tokenreviews.authentication.k8s.io", "", ""); err != nil || !allowed {
		t.Errorf("%t, %v of another group", allowed, err)
	}
	if allowed, _, err := c.SelfSubjectAccessReview(t.Context(), "delete", "pods", "", ""); err != nil || allowed {
		t.Errorf("%t, %v of what is not allowed", allowed, err)
	}
}

func TestEventsAreSent(t *testing.T) {
	s := newServer(t, func(_ *http.Request, body []byte) (int, any) {
		event := v1.Event{}
		_ = json.Unmarshal(body, &event)
		event.TypeMeta = typed("Event")
		return http.StatusOK, event
	})
	c, _ := s.client(t)
	event := &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}, Message: "m"}
	events := c.Events(t.Context())
	if got, err := events.Create(event); err != nil || got.Message != "m" || !strings.HasPrefix(s.last(), "POST /api/v1/namespaces/ns/events ") {
		t.Errorf("%v, %v after %q", got, err, s.last())
	}
	if got, err := events.Patch(event, []byte(`{"count":2}`)); err != nil || got.Count != 2 || !strings.HasPrefix(s.last(), "PATCH /api/v1/namespaces/ns/events/e ") {
		t.Errorf("%v, %v after %q", got, err, s.last())
	}
	if _, err := events.Update(event); err != nil || !strings.HasPrefix(s.last(), "PUT /api/v1/namespaces/ns/events/e ") {
		t.Errorf("%v after %q", err, s.last())
	}
}

func TestTokensAreReviewed(t *testing.T) {
	var asked authenticationv1.TokenReview
	s := newServer(t, func(r *http.Request, body []byte) (int, any) {
		if err := json.Unmarshal(body, &asked); err != nil || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" {
			t.Errorf("%s %s: %v", r.URL, body, err)
		}
		answer := authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}}
		if asked.Spec.Token == "valid" {
			answer.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "scraper", Groups: []string{"g"}}}
		}
		return http.StatusCreated, answer
	})
	c, _ := s.client(t)
	if user, err := c.TokenReview(t.Context(), "valid"); err != nil || user == nil || user.Username != "scraper" || user.Groups[0] != "g" {
		t.Errorf("%v, %v", user, err)
	}
	if user, err := c.TokenReview(t.Context(), "made-up"); err != nil || user != nil || asked.Spec.Token != "made-up" {
		t.Errorf("%v, %v", user, err)
	}
}

func TestWhatAUserMayGetIsAsked(t *testing.T) {
	var asked authorizationv1.SubjectAccessReview
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	s := newServer(t, func(r *http.Request, body []byte) (int, any) {
		if err := json.Unmarshal(body, &asked); err != nil || r.URL.Path != "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
			t.Errorf("%s %s: %v", r.URL, body, err)
		}
		return http.StatusCreated, authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Status: status}
	})
	c, _ := s.client(t)
	user := authenticationv1.UserInfo{Username: "scraper", UID: "7", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	if allowed, err := c.SubjectAccessReview(t.Context(), user, "get", "/metrics"); err != nil || !allowed {
		t.Errorf("%v, %v", allowed, err)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "scraper", UID: "7", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	if diff := cmp.Diff(want, asked.Spec); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	status.Allowed = false
	if allowed, err := c.SubjectAccessReview(t.Context(), user, "get", "/metrics"); err != nil || allowed {
		t.Errorf("%v, %v", allowed, err)
	}
}

// Reviews of what others send wait for each other, and keep no eviction waiting.
func TestReviewsHaveQueriesOfTheirOwn(t *testing.T) {
	s := newServer(t, func(*http.Request, []byte) (int, any) { return http.StatusOK, nil })
	c, _ := s.client(t)
	if with := c.current(); with.core.GetRateLimiter() == with.tokens.GetRateLimiter() || with.core.GetRateLimiter() == with.review.GetRateLimiter() {
		t.Error("evictions and reviews have one rate limiter")
	}
}
