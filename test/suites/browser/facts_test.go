package browser

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A record holds what evictd explain --json prints.
type record struct {
	ID         string
	Victim     struct{ Pod, Signal, Message string }
	Thresholds []struct {
		Signal, Value, GracePeriod string
		Acted                      bool
	}
	Observations []struct {
		Signal              string
		Available, Capacity int64
	}
	Candidates []struct {
		Pod                                            string
		Priority, Usage, MemoryRequest, StorageRequest int64
	}
	Order     []int
	Protected []struct{ Pod, Rule string }
	Timeline  struct{ BeganMS, ObservedMS, JournalledMS float64 }
	Outcome   *struct {
		KilledMS, GoneMS, ReliefMS float64
		Released                   int64
	}
	Advice struct{ Text, YAML string }
}

// same reports whether a text is an amount, of three digits.
func same(text string, amount int64) bool {
	number := strings.TrimRight(text, "KMGTi")
	n, err := strconv.ParseFloat(number, 64)
	size := map[string]float64{"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": gib, "Ti": 1 << 40}[text[len(number):]]
	return err == nil && math.Abs(n*size-float64(amount)) <= float64(amount)/100
}

func TestAScreenReaderFindsEachFactOfTheRecord(t *testing.T) {
	for name, r := range map[string]string{"memory": example, "a request": soft, "disk": file(t, disk(t)), "hostile names": file(t, hostile(t)), "by the kubelet": file(t, kubelets(t))} {
		t.Run(name, func(t *testing.T) {
			want := decoded[record](t, explain(t, r, "--json"))
			p := open(t, written(t, r), desk, "light")
			a := read(p)
			said := a.described()
			heading := a.one(t, "heading", value(a.nodes[0].Name)[len("evictd: "):])
			shown := visible(want.Victim.Pod)
			if level := property[int](heading, accessibility.PropertyNameLevel); level != 1 || !strings.HasPrefix(a.text(heading), shown+" was evicted") || evaluate[string](p, "document.documentElement.lang") != "en" {
				t.Errorf("heading of level %d: %q", level, a.text(heading))
			}
			if text := string(explain(t, r)); !strings.Contains(text, a.text(heading)+"\n") {
				t.Errorf("the heading %q is not the title in\n%s", a.text(heading), text)
			}
			if got := said["message"]; len(got) == 0 || got[0] != strings.TrimSpace(visible(want.Victim.Message)) {
				t.Errorf("message %q, want %q", got, want.Victim.Message)
			}
			if got := said["record"]; !slices.Equal(got, []string{want.ID}) {
				t.Errorf("record %q, want %s", got, want.ID)
			}
			advice(t, said["advice"], &want)
			threshold(t, said["why now"], &want)
			ranking(t, a, &want, string(explain(t, r)))
			followed(t, a, &want)
		})
	}
}

// visible is a text as a page has it: without what steers a terminal or a direction.
func visible(s string) string {
	return regexp.MustCompile(`[\x1b\x{202e}\x{2066}]`).ReplaceAllString(s, "\ufffd")
}

func advice(t *testing.T, said []string, want *record) {
	t.Helper()
	if want.Advice.Text == "" {
		if said != nil {
			t.Errorf("advice %q, want none", said)
		}
		return
	}
	if len(said) == 0 || !strings.HasPrefix(said[0], want.Advice.Text) {
		t.Fatalf("advice %q, want %q", said, want.Advice)
	}
	if yaml := said[1:]; want.Advice.YAML != strings.Join(yaml, "") {
		t.Errorf("YAML %q, want %q", yaml, want.Advice.YAML)
	}
}

func threshold(t *testing.T, said []string, want *record) {
	t.Helper()
	for _, of := range want.Thresholds {
		if !of.Acted {
			continue
		}
		text := strings.TrimSuffix(of.Signal+"<"+of.Value+" for "+of.GracePeriod, " for ")
		if len(said) == 0 || !strings.HasPrefix(said[0], text) {
			t.Fatalf("why now %q, want %q", said, text)
		}
		amounts := regexp.MustCompile(`: (\S+) of (\S+) available`).FindStringSubmatch(said[0])
		if o := want.Observations[0]; amounts == nil || !same(amounts[1], o.Available) || !same(amounts[2], o.Capacity) {
			t.Errorf("why now %q, want %d of %d", said[0], o.Available, o.Capacity)
		}
		return
	}
	if !slices.Equal(said, []string{"evictd made no decision about it"}) {
		t.Errorf("why now %q without a threshold", said)
	}
}

// ranking compares the order and the protected pods. text has the keys, which no record has.
func ranking(t *testing.T, a *tree, want *record, text string) {
	t.Helper()
	if want.Order != nil {
		rows := a.rows(t, "Order, the first to go first")
		if len(rows) != len(want.Order) {
			t.Fatalf("%d rows, want %d", len(rows), len(want.Order))
		}
		for i, row := range rows {
			c := want.Candidates[want.Order[i]]
			request := max(c.MemoryRequest, c.StorageRequest)
			if len(row) != 6 || row[0] != strconv.Itoa(i+1) || row[1] != visible(c.Pod) || row[2] != strconv.Itoa(int(c.Priority)) || !same(row[3], c.Usage) || !same(row[4], request) {
				t.Errorf("row %d %q, want %+v", i, row, c)
			}
			line := regexp.MustCompile(`(?m)^ +` + row[0] + ` +(.*)$`).FindString(text)
			if i < 10 && (row[5] == "" || !strings.Contains(line, row[1]) || !strings.HasSuffix(line, row[5])) {
				t.Errorf("row %d is before the next by %q, want that of %q", i, row[5], line)
			}
		}
	}
	if want.Protected != nil {
		for i, row := range a.rows(t, "Pods that could not go") {
			if p := want.Protected[i]; !slices.Equal(row, []string{visible(p.Pod), visible(p.Rule)}) {
				t.Errorf("protected %q, want %+v", row, p)
			}
		}
	}
}

func followed(t *testing.T, a *tree, want *record) {
	t.Helper()
	times := map[string]float64{"decided": 0, "pass began": want.Timeline.BeganMS, "node observed": want.Timeline.ObservedMS, "kill saved to disk": want.Timeline.JournalledMS}
	if o := want.Outcome; o != nil {
		maps.Copy(times, map[string]float64{"kill returned": o.KilledMS, "nothing of the pod ran any more": o.GoneMS, "what was promised was back": o.ReliefMS})
		said := strings.Join(a.described()["what followed"], " ")
		released := regexp.MustCompile(`(\S+) came back`).FindStringSubmatch(said)
		if released == nil || !same(released[1], o.Released) || !strings.Contains(said, fmt.Sprintf("killed after %gs, gone after %gs", o.KilledMS/1000, o.GoneMS/1000)) {
			t.Errorf("what followed %q, want %+v", said, *o)
		}
	}
	former := math.Inf(-1)
	for _, row := range a.rows(t, "Timeline, in milliseconds from the decision") {
		ms, err := strconv.ParseFloat(row[0], 64)
		if err != nil || ms < former {
			t.Errorf("%q is after %.1f", row, former)
		}
		former = ms
		if at, known := times[row[1]]; known && at != ms {
			t.Errorf("%q, want %.1f", row, at)
		}
		delete(times, row[1])
	}
	for step, ms := range times {
		if ms != 0 {
			t.Errorf("no %s at %.1f", step, ms)
		}
	}
}

// The link gives the record back: in its address, and as the file that a person saves by keyboard.
func TestTheLinkGivesTheRecordBack(t *testing.T) {
	for name, r := range map[string]string{"memory": example, "hostile names": file(t, hostile(t)), "an id with markup and a path": file(t, like(t, object{"id": `../../"><b>'&`}))} {
		want := explain(t, r, "--json")
		p := open(t, written(t, r), phone, "dark")
		read(p).one(t, "link", "The record")
		encoded, isData := strings.CutPrefix(evaluate[string](p, `document.querySelector("a").href`), "data:application/json;base64,")
		data, err := base64.StdEncoding.DecodeString(encoded)
		if !isData || err != nil {
			t.Fatalf("%s: %v in %.60q", name, err, encoded)
		}
		if got := explain(t, file(t, decoded[object](t, data)), "--json"); !bytes.Equal(got, want) {
			t.Errorf("%s: the link has the record\n%s\nwant\n%s", name, got, want)
		}
		dir := t.TempDir()
		yes := true
		_, err = chromedp.CallBrowser(p.Context, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, EventsEnabled: &yes})
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
			t.Fatalf("%s: saved %v, want one file whose name ends in .json", name, files)
		}
		saved := explain(t, filepath.Join(dir, files[0].Name()), "--json")
		if !reflect.DeepEqual(decoded[object](t, saved), decoded[object](t, want)) {
			t.Errorf("%s: saved\n%s\nwant\n%s", name, saved, want)
		}
	}
}

// What another threshold would have done is on the page too, line by line as in the text.
func TestWhatIfIsOnThePage(t *testing.T) {
	args := []string{example, "--if", "memory.available<2Gi for 30s", "--if", "memory.available<100Mi"}
	said := read(open(t, written(t, args...), desk, "light")).described()["what if"]
	if len(said) < 2 || !strings.Contains(said[0], "memory.available<2Gi for 30s") {
		t.Fatalf("%q, want both thresholds", said)
	}
	text := string(explain(t, args...))
	for _, line := range said {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
}

func TestAnEpisodeHasARowAndAHeadingForEachPod(t *testing.T) {
	r := []object{like(t, nil), disk(t), kubelets(t), hostile(t)}
	a := read(open(t, written(t, "--state-dir", episode(t, r...), "shop"), desk, "light"))
	rows := a.rows(t, "Decisions, the oldest first")
	if len(rows) != len(r) {
		t.Fatalf("%d rows, want %d", len(rows), len(r))
	}
	for i, row := range rows {
		pod := r[i]["victim"].(object)["pod"].(string)
		if row[2] != pod || !strings.HasPrefix(row[3], pod+" was evicted") || row[8] != r[i]["id"] {
			t.Errorf("row %q, want that of %s", row, pod)
		}
		heading := slices.IndexFunc(a.nodes, func(n *accessibility.Node) bool {
			return role(n) == "heading" && strings.HasSuffix(a.text(n), row[3]) && property[int](n, accessibility.PropertyNameLevel) == 2
		})
		if heading < 0 {
			t.Errorf("no heading %q", row[3])
		}
	}
}
