package browser

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The link of a page saves the record as a file, also by keyboard.
func TestTheLinkSavesTheRecord(t *testing.T) {
	p := open(t, written(t, example), phone, "dark")
	dir := t.TempDir()
	yes := true
	_, err := chromedp.CallBrowser(p.Context, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, EventsEnabled: &yes})
	p.must(err)
	downloads := chromedp.BrowserEvents(p.Context, browser.DownloadProgress)
	p.must(chromedp.Do(p.Context, chromedp.Focus(chromedp.CSS("a")), chromedp.KeyEvent(kb.Enter)))
	for event, err := range downloads {
		p.must(err)
		if event.State == browser.DownloadProgressStateCompleted {
			break
		}
	}
	files, err := os.ReadDir(dir)
	p.must(err)
	if len(files) != 1 || filepath.Ext(files[0].Name()) != ".json" {
		t.Fatalf("saved %v, want one file whose name ends in .json", files)
	}
	saved, want := explain(t, filepath.Join(dir, files[0].Name()), "--json"), explain(t, example, "--json")
	if !reflect.DeepEqual(decoded[object](t, saved), decoded[object](t, want)) {
		t.Errorf("saved\n%s\nwant\n%s", saved, want)
	}
}
