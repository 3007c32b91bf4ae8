package browser

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// served runs evictd page with records of a directory, and returns its address.
func served(t testing.TB, dir string) string {
	t.Helper()
	ready(t)
	cmd := exec.CommandContext(t.Context(), evictd, "page", "--records", dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// keep writes a record of an eviction at a second after another.
func keep(t testing.TB, dir string, second int, pod string) (id string) {
	t.Helper()
	at := time.Date(2026, 1, 1, 12, 0, second, 0, time.UTC)
	id = at.Format("20060102T150405.000Z") + fmt.Sprintf("-%08x", second)
	victim := decoded[object](t, []byte(`{"pod": "shop/`+pod+`", "uid": "`+pod+`-uid", "signal": "memory.available", "graceSeconds": 1, "message": "The node was low on resource: memory. ", "owner": "ReplicaSet/report"}`))
	data, err := json.Marshal(like(t, object{"id": id, "time": at.Format(time.RFC3339), "victim": victim}))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, ".new"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(data)
	for _, e := range []error{err, z.Close(), f.Close(), os.Rename(f.Name(), filepath.Join(dir, id+"_shop_"+pod+"_"+pod+"-uid.json.gz"))} {
		if e != nil {
			t.Fatal(e)
		}
	}
	return id
}

func TestTheSiteBreaksNoRuleOfAccessibility(t *testing.T) {
	script, dir := axe(t), t.TempDir()
	keep(t, dir, 0, "report-1")
	id := keep(t, dir, 5, "report-2")
	keep(t, dir, 9, "report-3") // made again and again
	url := served(t, dir)
	for _, view := range []string{"", "evictions", "evictions?kind=eviction&plugin=memory", "why?what=" + id, "why?what=ReplicaSet/shop/report", "rank"} {
		p := visit(t, url+view, desk, "light")
		p.unfold()
		for _, width := range []int64{desk, 360} {
			for _, scheme := range []string{"light", "dark"} {
				p.screen(width, scheme)
				p.settle()
				violations, advice := check(p, script)
				for _, f := range append(violations, advice...) {
					t.Errorf("%q %d %s: %s", view, width, scheme, f)
				}
				if found := evaluate[[]string](p, wide); len(found) > 0 && width == 360 {
					t.Errorf("%q is wider than a phone: %q", view, found)
				}
			}
		}
		for _, event := range p.events() {
			if !strings.HasPrefix(event, "request "+url) {
				t.Errorf("%q: %s", view, event)
			}
		}
		p.screen(desk, "light")
		p.shot("site-" + strings.Split(cmp.Or(view, "now"), "?")[0])
	}
}

const rows = `[...document.querySelectorAll("td:nth-child(3)")].map(d => d.textContent)`

// The list of evictions is current within seconds, keeps what the viewer has focused, and is there without JavaScript.
func TestTheSiteIsCurrent(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "report-1")
	url := served(t, dir)
	plain := visit(t, url, desk, "light")
	_, err := chromedp.Call(plain.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	plain.must(err)

	p := visit(t, url+"evictions", desk, "light")
	keep(t, dir, 5, "report-2")
	for end := time.Now().Add(10 * time.Second); len(evaluate[[]string](p, rows)) < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a new eviction is not shown: hidden %t, %q, %q", evaluate[bool](p, "document.hidden"), evaluate[[]string](p, rows), evaluate[string](p, "document.body.innerText"))
		}
	}
	if got := evaluate[[]string](p, rows); got[0] != "shop/report-2" {
		t.Errorf("pods %q, want the newest first", got)
	}
	if got := evaluate[string](p, `document.querySelector("#live").textContent`); got != "" {
		t.Errorf("says %q", got)
	}

	plain.must(chromedp.Do(plain.Context, chromedp.Navigate(url+"evictions")))
	if got := evaluate[[]string](plain, rows); len(got) < 2 {
		t.Errorf("without JavaScript: %q", got)
	}
}
