package kubeapi

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func encoded(t testing.TB, names ...string) []byte {
	t.Helper()
	list := &v1.PodList{TypeMeta: typed("PodList"), ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, name := range names {
		list.Items = append(list.Items, v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{name}}})
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(list, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func none(uint64) {}

func TestAListIsReadPodByPod(t *testing.T) {
	list, err := readPods(bytes.NewReader(encoded(t, "a", "b", "c")), nil, none)
	if err != nil || list.ResourceVersion != "7" || len(list.Items) != 3 || list.Items[2].Name != "c" || list.Items[2].Finalizers != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// One pod that is too large must not hide the others.
func TestAPodThatIsTooLargeIsLeftOut(t *testing.T) {
	items := protowire.AppendTag(nil, fieldItems, protowire.BytesType)
	items = protowire.AppendVarint(items, maxPodBytes+1)
	after, err := (&v1.PodList{Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "after"}}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := (&runtime.TypeMeta{Kind: "PodList"}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	head := protowire.AppendBytes(protowire.AppendTag([]byte(protobufMagic), fieldTypeMeta, protowire.BytesType), kind)
	head = protowire.AppendTag(head, fieldRaw, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(items)+maxPodBytes+1+len(after)))
	body := io.MultiReader(bytes.NewReader(head), bytes.NewReader(items), io.LimitReader(zeros{}, maxPodBytes+1), bytes.NewReader(after))
	var said uint64
	list, err := readPods(body, nil, func(n uint64) { said = n })
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "after" || said != maxPodBytes+1 {
		t.Errorf("%v, %v, %d bytes are said", list, err, said)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestAListThatCannotBeReadIsRefused(t *testing.T) {
	whole := encoded(t, "a", "b")
	other := bytes.Replace(whole, []byte("PodList"), []byte("PodLost"), 1)
	huge := protowire.AppendVarint(protowire.AppendTag([]byte(protobufMagic), fieldTypeMeta, protowire.BytesType), math.MaxUint64)
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"JSON":  {[]byte(`{"kind":"PodList"}`), "answer about pods is not application/vnd.kubernetes.protobuf, as asked for"},
		"empty": {nil, "EOF"},
		"other": {other, `answer is a "PodLost", want a PodList`},
		"huge":  {huge, fmt.Sprintf("field has %d bytes, want at most %d", uint64(math.MaxUint64), maxHeaderBytes)},
	} {
		if _, err := readPods(bytes.NewReader(c.body), nil, none); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// A connection that ends early would hide pods.
func TestATruncatedListIsRefused(t *testing.T) {
	whole := encoded(t, "a", "b")
	for n := range whole {
		list, err := readPods(bytes.NewReader(whole[:n]), nil, none)
		if err == nil && len(list.Items) != 2 {
			t.Errorf("%d of %d bytes are a list of %d pods", n, len(whole), len(list.Items))
		}
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add(encoded(f, "a", "b"))
	f.Add([]byte(protobufMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := readPods(bytes.NewReader(data), nil, none)
		if err == nil && len(list.Items) > len(data) {
			t.Errorf("%d pods in %d bytes", len(list.Items), len(data))
		}
	})
}

// The bounds do not hold for JSON, which a proxy could send.
func TestPodsInJSONAreRefused(t *testing.T) {
	s := newServer(t, func(r *http.Request, _ []byte) (int, any) {
		pod := map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": "p"}}
		switch {
		case r.Method == http.MethodPatch:
			return http.StatusOK, pod
		case r.URL.Query().Get("watch") != "":
			return http.StatusOK, map[string]any{"type": "ADDED", "object": pod}
		}
		return http.StatusOK, map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{pod}}
	})
	c, _ := s.client(t)
	if _, err := c.ListPods(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), errFormat.Error()) {
		t.Errorf("list: %v", err)
	}
	if _, err := c.PatchPodStatus(t.Context(), "ns", "p", []byte("{}"), true); err == nil || !strings.Contains(err.Error(), errFormat.Error()) {
		t.Errorf("patch: %v", err)
	}
	w, err := c.WatchPods(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if event := <-w.ResultChan(); event.Type != "ERROR" || !strings.Contains(fmt.Sprint(event.Object), errFormat.Error()) {
		t.Errorf("watch: %v", event)
	}
}
