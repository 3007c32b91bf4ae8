package browser

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	example = "../../../host/internal/why/tell/testdata/example.json"
	soft    = "../../../host/internal/core/decision/testdata/soft.json"
	gib     = 1 << 30
)

// An object is a record, or a part of one.
type object = map[string]any

// like returns the example with other fields.
func like(t testing.TB, fields object) object {
	t.Helper()
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	r := decoded[object](t, data)
	maps.Copy(r, fields)
	return r
}

func file(t testing.TB, r object) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// requested is of a pod that a larger request would have spared.
func requested(t testing.TB) object {
	t.Helper()
	data, err := os.ReadFile(soft)
	if err != nil {
		t.Fatal(err)
	}
	return decoded[object](t, data)
}

// disk is of a full disk, with pods whose names are as long as they can be.
func disk(t testing.TB) object {
	long := strings.Repeat("a", 63) + "/" + strings.Repeat("b", 253)
	pod := func(i int, use int64) object {
		return object{
			"uid": fmt.Sprint(i), "pod": fmt.Sprintf("shop/job-%d", i), "qos": "Burstable", "storageRequest": gib, "usage": use,
			"parts": []object{{"name": "emptyDir scratch", "used": use / 2}, {"name": "logs", "used": use / 4}},
		}
	}
	candidates, order := []object{pod(0, 9*gib), pod(1, 8*gib)}, []int{0, 1}
	candidates[0]["pod"] = long
	for i := 2; i < 40; i++ {
		candidates, order = append(candidates, pod(i, int64(100-i)*gib/16)), append(order, i)
	}
	return like(t, object{
		"victim":       object{"uid": "0", "pod": long, "signal": "nodefs.available", "message": "The node was low on resource: ephemeral-storage.", "promised": 9 * gib, "used": 9 * gib},
		"thresholds":   []object{{"signal": "nodefs.available", "value": "10%", "acted": true, "actionable": true}},
		"observations": []object{{"signal": "nodefs.available", "state": "observed", "available": 5 * gib, "capacity": 100 * gib, "time": "2026-01-01T12:00:50Z"}},
		"signals":      []object{{"signal": "nodefs.available", "untilMS": 0, "unit": 1 << 20, "available": []int{9000, -900, -900, -900, -1180}}},
		"candidates":   candidates, "order": order, "curves": []string{long}, "usage": []object{}, "growth": nil,
		"protected": []object{{"uid": "p", "pod": "kube-system/proxy", "rule": "critical or static"}, {"uid": "q", "pod": "shop/new", "rule": "younger than its grace"}},
		"timeline":  object{"beganMS": -12.5, "observedMS": -3, "journalledMS": 1.5},
		"outcome":   object{"id": "r1", "killedMS": 1200, "goneMS": 1250, "state": "finished", "released": 9 * gib, "reliefMS": 2600},
	})
}

// kubelets is of an eviction by another program, of which little is known.
func kubelets(t testing.TB) object {
	r := like(t, object{"kind": "other", "by": "the kubelet", "trigger": "", "causes": ""})
	for _, field := range []string{"thresholds", "observations", "candidates", "order", "signals", "usage", "curves", "growth", "marks", "outcome", "ranker"} {
		delete(r, field)
	}
	return r
}

// markup does harm in each way if it is not text.
const markup = `"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)><a href=javascript:alert(3) autofocus onfocus=this.onfocus=null,alert(4)>x</a></style></pre><style>@import url(http://evil.example/y)</style>` + "\u202e\u2066\x1b[31m"

// hostile has markup wherever a name or a reason of others is.
func hostile(t testing.TB) object {
	r := disk(t)
	for _, of := range []any{r["victim"], r["candidates"].([]object)[0]} {
		of.(object)["pod"] = "shop/" + markup
	}
	r["victim"].(object)["message"] = markup
	r["candidates"].([]object)[1]["reason"] = markup
	r["candidates"].([]object)[0]["parts"] = []object{{"name": markup, "used": 1}}
	r["protected"] = []object{{"uid": "p", "pod": markup, "rule": markup}}
	r["ranker"] = object{"name": markup, "version": markup, "custom": true}
	r["curves"], r["node"], r["evictd"], r["config"] = []string{markup}, markup, markup, markup
	r["inputs"] = []object{{"name": markup, "reason": markup, "ageSeconds": 3}}
	r["reclaim"] = []object{{"step": markup, "by": markup, "message": markup, "error": markup, "tookSeconds": 1}}
	r["marks"] = []object{{"what": "plugin", "text": markup, "ms": -2000, "untilMS": -1000}}
	return r
}

// episode returns a directory of the records of a night, one of which is each of the others.
func episode(t testing.TB, all ...object) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "records"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 50, 0, time.UTC)
	for i, r := range all {
		uid := fmt.Sprintf("report-%d", i)
		r["time"], r["id"] = at.Add(time.Duration(i)*time.Minute), fmt.Sprintf("20260101T12%02d50.000Z-5f3a9c21", i)
		victim := maps.Clone(r["victim"].(object))
		victim["pod"], victim["uid"] = "shop/"+uid, uid
		r["victim"] = victim
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(data)
		_ = z.Close() // to memory
		name := filepath.Join(dir, "records", fmt.Sprintf("%s_shop_%s_%s.json.gz", r["id"], uid, uid))
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pages returns the file of a decision, that of an episode with a decision of each kind, and that for the owner of a pod.
func pages(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{
		"example": written(t, example),
		"episode": written(t, "--state-dir", episode(t, like(t, nil), disk(t), kubelets(t), hostile(t), requested(t)), "shop"),
		"owner":   written(t, "--state-dir", episode(t, hostile(t)), "--owner", "shop/report-0"),
	}
}
