package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	evictctl = "../../../bin/evictctl"
	// kept is for people to look at.
	kept = "../../../bin/test/pages"
	// maxWait is for what a loaded machine does late; a page takes a tenth of a second.
	maxWait = 30 * time.Second
	// phone and desk are widths of a screen. WCAG wants no more than phone.
	phone, desk = 320, 1280
)

// chromium is the browser of all tests, which each have a tab of their own.
var (
	chromium context.Context
	started  error
)

func TestMain(m *testing.M) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		os.Exit(m.Run())
	}
	home, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		panic(err)
	}
	// Root has no sandbox, no name has an address, and what a browser keeps of its user is away at the end.
	allocated, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.ExecPath("chromium"), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Env("XDG_CONFIG_HOME="+home))...)
	var cancel context.CancelFunc
	chromium, cancel = chromedp.NewContext(allocated)
	started = chromedp.Do(chromium)
	status := m.Run()
	cancel()
	stop()
	_ = os.RemoveAll(home)
	os.Exit(status)
}

// A tab shows one page. It keeps what the page did beside being shown.
type tab struct {
	testing.TB
	context.Context //nolint:containedctx // chromedp knows a tab by it

	mutex   sync.Mutex
	noticed []string
}

// open opens a file in a tab of a width and a colour scheme.
func open(t testing.TB, file string, width int64, scheme string) *tab {
	t.Helper()
	absolute, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return visit(t, "file://"+absolute, width, scheme)
}

// visit opens an address in a tab of a width and a colour scheme.
func visit(t testing.TB, url string, width int64, scheme string) *tab {
	t.Helper()
	ready(t)
	p := &tab{TB: t}
	var dialogs sync.WaitGroup
	ctx, cancel := context.WithTimeout(chromium, maxWait)
	tabbed, end := chromedp.NewContext(ctx, chromedp.WithListener(func(event any) {
		if _, dialog := event.(*page.EventJavascriptDialogOpening); dialog {
			dialogs.Go(func() { // the page waits for it
				_, _ = chromedp.Call(p.Context, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			})
		}
		p.notice(event)
	}))
	p.Context = tabbed
	t.Cleanup(func() { dialogs.Wait(); end(); cancel() })
	p.screen(width, scheme)
	_, err := chromedp.Call(p.Context, network.Enable, network.EnableParams{})
	p.must(err)
	p.must(chromedp.Do(p.Context, chromedp.Navigate(url)))
	p.settle()
	return p
}

// ready fails or skips a test without browser or program.
func ready(t testing.TB) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs chromium: run make test")
	}
	if started != nil {
		t.Fatalf("chromium does not start: %v: apt-get install chromium", started)
	}
	for program, how := range map[string]string{"rsvg-convert": "apt-get install librsvg2-bin", evictctl: "make build"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: %s", err, how)
		}
	}
}

func (p *tab) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// notice keeps events of a page that is not silent.
func (p *tab) notice(event any) {
	var what string
	switch event := event.(type) {
	case *page.EventJavascriptDialogOpening:
		what = "dialog " + event.Message
	case *runtime.EventConsoleAPICalled:
		what = fmt.Sprintf("console %s", event.Type)
	case *runtime.EventExceptionThrown:
		what = "exception " + event.ExceptionDetails.Text
	case *log.EventEntryAdded:
		what = "log " + event.Entry.Text
	case *network.EventRequestWillBeSent:
		what = "request " + event.Request.URL
	case *page.EventWindowOpen:
		what = "window " + event.URL
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if what != "" {
		p.noticed = append(p.noticed, what)
	}
}

// events returns what a page did, sorted.
func (p *tab) events() []string {
	p.Helper()
	p.settle()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Sorted(slices.Values(p.noticed))
}

// settle waits until what is on the page has been drawn, after which its events have arrived.
func (p *tab) settle() {
	p.Helper()
	_, err := chromedp.Run(p.Context, chromedp.Evaluate[bool](`new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))`, chromedp.EvalAwaitPromise))
	p.must(err)
}

// screen sets the width and the colour scheme.
func (p *tab) screen(width int64, scheme string) {
	p.Helper()
	p.must(chromedp.Do(p.Context, chromedp.EmulateViewport(width, 800)))
	_, err := chromedp.Call(p.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.must(err)
}

// evaluate returns the value of an expression in the page, which no policy of the page forbids.
func evaluate[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.Context, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	p.must(err)
	return value
}

// unfold opens all that is folded.
func (p *tab) unfold() {
	p.Helper()
	evaluate[int](p, `[...document.querySelectorAll("details")].map(d => d.open = true).length`)
	p.settle()
}

// shot keeps a picture of the whole page.
func (p *tab) shot(name string) {
	p.Helper()
	png, err := chromedp.Run(p.Context, chromedp.FullScreenshot(100))
	p.must(err)
	p.must(os.MkdirAll(kept, 0o755))
	p.must(os.WriteFile(filepath.Join(kept, name+".png"), png, 0o644))
}

// explain returns the output of evictctl explain.
func explain(t testing.TB, args ...string) []byte {
	t.Helper()
	ready(t)
	cmd := exec.CommandContext(t.Context(), evictctl, append([]string{"explain"}, args...)...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("evictctl explain %q: %v\n%s", args, err, errors.String())
	}
	return out
}

// written returns the file of a page.
func written(t testing.TB, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "why.html")
	if err := os.WriteFile(file, explain(t, append(args, "--html")...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// decoded returns JSON as a value.
func decoded[T any](t testing.TB, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %.200s", err, data)
	}
	return v
}
