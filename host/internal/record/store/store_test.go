package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/testos"
)

const mebibyte = 1 << 20

func opened(t testing.TB, dir string) *Store {
	t.Helper()
	s := New(Options{Dir: dir, MaxBytes: 64 * mebibyte, MaxAge: 720 * time.Hour})
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(id string) *decision.Decision {
	return &decision.Decision{Version: decision.Version, ID: id, Kind: decision.KindEviction, Time: time.Now(), Victim: &decision.Victim{
		Pod: "shop/" + id, UID: "uid-" + id, Signal: "memory.available", Message: strings.Repeat("why ", rand.IntN(200)),
	}}
}

// ids returns the ids of the records in dir.
func ids(t testing.TB, dir string) (got []string) {
	t.Helper()
	if err := Each(dir, Filter{All: true}, func(d *decision.Decision) { got = append(got, d.ID) }); err != nil {
		t.Error(err)
	}
	slices.Reverse(got)
	return got
}

func TestTheConfigurationIsThereAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	if d, err := s.Configured(); d != nil || err != nil {
		t.Errorf("at the first start %+v, %v", d, err)
	}
	for _, value := range []string{"500Mi", "1Gi"} {
		if err := s.SaveConfigured(&decision.Decision{Version: decision.Version, ID: decision.NewID(time.Now()), Kind: decision.KindNone, Config: value, Thresholds: []decision.Threshold{{Signal: "memory.available", Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Append(record("r1")), s.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := opened(t, dir).Configured()
	if err != nil || d.Config != "1Gi" || len(d.Thresholds) != 1 || d.Thresholds[0].Value != "1Gi" {
		t.Errorf("%+v, %v, want the last one saved", d, err)
	}
	if got := ids(t, dir); len(got) != 1 {
		t.Errorf("records %v, want r1 alone", got)
	}
}

func TestRecordsAreThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	if err := errors.Join(s.Append(record("r1")), s.Append(record("r2")), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	if err := errors.Join(s.AppendOutcome(&decision.Outcome{ID: "r1", GoneMS: 12}), s.Append(record("r3"))); err != nil {
		t.Fatal(err)
	}
	found, _, err := Find(dir, Filter{What: "uid-r1", All: true}, mebibyte)
	if got := strings.Join(ids(t, dir), " "); got != "r1 r2 r3" || err != nil || len(found) != 1 || found[0].Outcome.GoneMS != 12 {
		t.Errorf("records %s, found %+v, %v", got, found, err)
	}
}

// The log had the id of an eviction, and evictctl replay said that there is no record of it.
func TestTheIDThatTheLogHasIsFoundBeforeItsRecordIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		ago, written time.Duration // of the decision, and after it; 0 for never
		wait         time.Duration
	}{
		"written while it is looked for":      {written: 3 * time.Second, wait: 3 * time.Second},
		"written before":                      {ago: time.Minute, written: time.Second},
		"lost":                                {ago: time.Second, wait: writtenWithin - time.Second},
		"lost long ago":                       {ago: time.Hour},
		"lost, before the clock was set back": {ago: -time.Hour, wait: writtenWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, id := t.TempDir(), decision.NewID(time.Now())
				s, began := opened(t, dir), time.Now()
				if c.written > 0 {
					time.AfterFunc(c.written, func() {
						if err := s.Append(record(id)); err != nil {
							t.Error(err)
						}
					})
				}
				if c.ago < 0 {
					id = decision.NewID(began.Add(-c.ago))
				}
				time.Sleep(max(0, c.ago))
				asked := time.Now()
				found, _, err := Find(dir, Filter{What: id, All: true}, mebibyte)
				if err != nil || (len(found) == 1) != (c.written > 0) {
					t.Errorf("%d records, %v", len(found), err)
				}
				if waited := time.Since(asked); waited < c.wait || waited > c.wait+2*lookEvery {
					t.Errorf("waited %v, want %v", waited, c.wait)
				}
				synctest.Wait() // a record can be found before Append returns
			})
		})
	}
	if at := decision.IDTime("cart-7d9f"); !at.IsZero() {
		t.Errorf("the name of a pod has the time %v", at)
	}
}

func TestTwoDoNotWriteToOneDirectory(t *testing.T) {
	dir := t.TempDir()
	opened(t, dir)
	if err := New(Options{Dir: dir, MaxBytes: mebibyte, MaxAge: time.Hour}).Open(); err == nil || !strings.Contains(err.Error(), "in use by another evictd") {
		t.Errorf("a second store: %v", err)
	}
}

// The directory may come later: a disk that is full, or not mounted yet.
func TestAStoreIsOpenedWhenItCanBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	testos.WriteFile(t, dir, "", 0o600)
	s := New(Options{Dir: dir, MaxBytes: mebibyte, MaxAge: time.Hour})
	defer s.Close()
	if err := s.Append(record("lost")); err == nil {
		t.Error("a record is kept in a file that is no directory")
	}
	testos.Remove(t, dir)
	if err := s.Append(record("kept")); err != nil {
		t.Error(err)
	}
	if got := ids(t, dir); strings.Join(got, " ") != "kept" {
		t.Errorf("kept: %v", got)
	}
}

func TestADirectoryThatWasRemovedIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	s := opened(t, dir)
	for _, id := range []string{"before", "after"} {
		if err := s.Append(record(id)); err != nil {
			t.Fatal(err)
		}
		if id == "before" {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := ids(t, dir); strings.Join(got, " ") != "after" {
		t.Errorf("kept: %v", got)
	}
}

// By one jump of the clock by 30 days all records were too old, and gone.
func TestAClockThatJumpsMakesNoRecordOld(t *testing.T) {
	const month = 30*24*time.Hour + time.Minute
	for name, c := range map[string]struct {
		jump, ran   time.Duration
		restarts    bool
		wantRecords string
	}{
		"forward":                      {jump: month, wantRecords: "1-before 2-jumped 3-after"},
		"forward, before evictd began": {jump: month, restarts: true, wantRecords: "1-before 2-jumped 3-after"},
		"backward":                     {jump: -month, wantRecords: "1-before 2-jumped 3-after"},
		"no jump, it is a month later": {jump: month, ran: month, wantRecords: "2-jumped 3-after"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := opened(t, dir)
			keep := func(id string) {
				t.Helper()
				if err := s.Append(record(id)); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Chtimes(filepath.Join(dir, fileName(record(id))), s.now(), s.now()), s.Prune()); err != nil {
					t.Fatal(err)
				}
			}
			keep("1-before")
			if c.restarts {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = New(s.Options)
				defer s.Close()
			}
			s.now = func() time.Time { return time.Now().Add(c.jump) }
			if err := s.Open(); err != nil {
				t.Fatal(err)
			}
			s.opened = s.opened.Add(-c.ran)
			keep("2-jumped")
			keep("3-after")
			if got := strings.Join(ids(t, dir), " "); got != c.wantRecords {
				t.Errorf("records that are left: %s, want %s", got, c.wantRecords)
			}
		})
	}
}

func allFiles(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOldRecordsMakeRoom(t *testing.T) {
	dir := t.TempDir()
	testos.WriteFile(t, filepath.Join(dir, "20200101T000000.000000000Z.json.gz"), make([]byte, 8192), 0o600) // no record
	s := New(Options{Dir: dir, MaxBytes: 64 << 10, MaxAge: time.Hour})
	defer s.Close()
	for i := range 40 {
		if err := s.Append(record(fmt.Sprintf("r%03d", i))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.stored(); s.used > s.MaxBytes || err != nil {
			t.Fatalf("%d bytes are used, %v", s.used, err)
		}
	}
	if got := ids(t, dir); len(got) < 10 || len(got) > 16 || got[len(got)-1] != "r039" {
		t.Errorf("records that are left: %v", got)
	}
}

func TestOldRecordsGo(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	if err := errors.Join(s.Append(record("old")), s.Append(record("new"))); err != nil {
		t.Fatal(err)
	}
	monthAgo := time.Now().Add(-721 * time.Hour)
	if err := errors.Join(os.Chtimes(filepath.Join(dir, fileName(record("old"))), monthAgo, monthAgo), s.Prune()); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, dir); strings.Join(got, " ") != "new" {
		t.Errorf("kept: %v", got)
	}
}

// On a full disk a record is lost and the next one that fits is whole.
func TestAFullDiskLosesRecordsAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	full := errors.New("no space left on device")
	for i := range 20 {
		s.write, s.rename = (*os.File).Write, os.Rename
		switch i % 4 {
		case 1:
			s.write = func(f *os.File, data []byte) (int, error) {
				n, err := f.Write(data[:rand.IntN(len(data))])
				return n, errors.Join(full, err)
			}
		case 3:
			s.rename = func(string, string) error { return full }
		}
		id := fmt.Sprintf("r%02d", i)
		if err := s.Append(record(id)); (i%2 == 1) != errors.Is(err, full) {
			t.Fatalf("record %d: %v", i, err)
		}
		if err := s.AppendOutcome(&decision.Outcome{ID: id, State: "finished"}); (i%2 == 1) != errors.Is(err, ErrNone) {
			t.Fatalf("outcome of record %d: %v", i, err)
		}
	}
	files := allFiles(t, dir)
	if got := ids(t, dir); len(got) != 10 || got[9] != "r18" || len(files) != 11 {
		t.Errorf("kept: %v in %v", got, files)
	}
}

// A damaged record, or a newer evictd's, takes none of the others with it. A file that is no record,
// or a link, is not opened.
func TestWhatIsDamagedIsReported(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	for _, id := range []string{"first", "second", "third"} {
		r := record(id)
		r.Victim.Pod = "shop/report"
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	second := filepath.Join(dir, "second_shop_report_uid-second.json.gz")
	data := testos.ReadFile(t, second)
	testos.Symlink(t, second, filepath.Join(dir, "link_shop_report_uid.json.gz"))
	testos.Mkdir(t, filepath.Join(dir, "dir_shop_report_uid.json.gz"), 0o700)
	testos.WriteFile(t, filepath.Join(dir, "x.json.gz"), "{}", 0o600)
	bomb := zipped(t, make([]byte, maxDocument+1))
	for what, content := range map[string][]byte{
		"cut": data[:len(data)-9], "empty": nil, "bits": append(bytes.Clone(data[:30]), data[29:]...), "bomb": bomb, "later version": zipped(t, []byte(`{"version":2,"id":"second"}`)),
	} {
		testos.WriteFile(t, second, content, 0o600)
		if found, _, err := Find(dir, Filter{What: "report", All: true}, mebibyte); len(found) != 2 || found[1].ID != "third" || err == nil || !strings.HasPrefix(err.Error(), second+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: found %d, %v; want the two that are whole and an error that names the other", what, len(found), err)
		}
		if heads, _ := Heads(dir, Filter{What: "report"}); len(heads) < 2 {
			t.Errorf("%s: %d heads", what, len(heads))
		}
		if err := s.AppendOutcome(&decision.Outcome{ID: "second"}); err == nil || !bytes.Equal(testos.ReadFile(t, second), content) {
			t.Errorf("%s: an outcome is written: %v", what, err)
		}
	}
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// evictd removed all other records to make room for a sparse file of 1 TiB.
func TestASparseFileOfATebibyteTakesNoRoom(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	sparse := filepath.Join(dir, "0_none.json.gz")
	if err := errors.Join(os.WriteFile(sparse, nil, 0o600), os.Truncate(sparse, 1<<40)); err != nil {
		t.Skip(err)
	}
	if err := errors.Join(s.Append(record("before")), s.Prune(), s.Append(record("after"))); err != nil {
		t.Fatal(err)
	}
	heads, err := Heads(dir, Filter{All: true})
	if err == nil || !strings.Contains(err.Error(), sparse) || len(heads) != 2 {
		t.Errorf("%d records, %v, want both and an error that names the file", len(heads), err)
	}
}

// Names of pods are foreign: whatever they have, a record is one file, and it is found.
func TestRecordsOfHostilePodsAreFound(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	long := strings.Repeat("long", 60)
	for i, pod := range []string{"shop/web_1", "shop/" + long, "shop/" + long + "er", "../..", "shop/.", "/", "", "a_b/c\x00\n", "shop/\x1b[2J", "shöp/wéb", "shop/a/b"} {
		d := record(fmt.Sprintf("r%02d", i))
		d.Victim.Pod, d.Victim.UID = pod, fmt.Sprint(pod, "/_", i)
		name := fileName(d)
		h, ok := parse(name)
		if len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) || !ok || h.ID != d.ID {
			t.Errorf("%q: file %q with the head %+v", pod, name, h)
		}
		if err := errors.Join(s.Append(d), s.AppendOutcome(&decision.Outcome{ID: d.ID, State: "finished"})); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{d.ID, d.Victim.UID, pod} {
			found, _, err := Find(dir, Filter{What: what, All: true}, mebibyte)
			if (len(found) != 1 || found[0].Victim.Pod != pod || found[0].Outcome == nil) && what != "" || err != nil {
				t.Errorf("%q: %d records, %v", what, len(found), err)
			}
		}
	}
	if heads, err := Heads(dir, Filter{Namespace: "shop"}); len(heads) != 6 || err != nil {
		t.Errorf("%d records of the namespace, %v", len(heads), err)
	}
}

// What a former evictd decided on is recorded by the next one only if it has no record.
func TestAResumedKillKeepsItsRecord(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	first, stub := record("r1"), record("r1")
	stub.Kind = decision.KindResumed
	after := &decision.Series{Unit: 1, Available: make([]int64, headSize)} // so that its head is longer than usual
	if err := errors.Join(s.Append(first), s.Append(stub), s.AppendOutcome(&decision.Outcome{ID: "r1", State: "finished"}), s.AppendOutcome(&decision.Outcome{ID: "r1", After: after})); err != nil {
		t.Fatal(err)
	}
	found, _, err := Find(dir, Filter{What: "r1", All: true}, mebibyte)
	if err != nil || len(found) != 1 || found[0].Kind != decision.KindEviction || found[0].Outcome.State != "finished" || found[0].Outcome.After == nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if heads, err := Heads(dir, Filter{}); err != nil || len(heads) != 1 || heads[0].Outcome.State != "finished" || heads[0].Outcome.After != nil {
		t.Errorf("heads %+v, %v", heads, err)
	}
}

// While records are written, changed and removed, others read whole ones.
func TestReadersSeeWholeRecords(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Dir: dir, MaxBytes: 32 << 10, MaxAge: time.Hour})
	defer s.Close()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 30 && err == nil; i++ {
			id := fmt.Sprintf("r%03d", i)
			err = errors.Join(s.Append(record(id)), s.AppendOutcome(&decision.Outcome{ID: id, State: "finished"}))
		}
		written <- err
	}()
	for {
		_, err := Heads(dir, Filter{})
		if got := ids(t, dir); !slices.IsSorted(got) || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// killedEnv has this test binary write a record and its outcome in a directory, and kill itself at
// a step.
const killedEnv = "EVICTD_TEST_KILLED_AT"

func TestMain(m *testing.M) {
	if op, dir, ok := strings.Cut(os.Getenv(killedEnv), " "); ok {
		writeAndDie(op, dir)
	}
	os.Exit(m.Run())
}

// steps lists the steps of a write: before and after opening, half a write, and so on.
var steps = []string{"begun", "opened", "half", "written", "synced", "renamed", "returned"}

func writeAndDie(op, dir string) {
	of, at, _ := strings.Cut(op, ":")
	armed := false
	reach := func(step string) {
		if armed && step == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	s := New(Options{Dir: dir, MaxBytes: mebibyte, MaxAge: time.Hour})
	s.write = func(f *os.File, data []byte) (int, error) {
		reach("opened")
		n, err := f.Write(data[:len(data)/2])
		reach("half")
		m, err2 := f.Write(data[n:])
		reach("written")
		return n + m, errors.Join(err, err2)
	}
	s.rename = func(from, to string) error {
		reach("synced")
		err := os.Rename(from, to)
		reach("renamed")
		return err
	}
	for _, write := range []struct {
		of   string
		call func() error
	}{
		{"decision", func() error { return s.Append(record("killed")) }},
		{"outcome", func() error { return s.AppendOutcome(&decision.Outcome{ID: "killed", State: "finished"}) }},
	} {
		armed = write.of == of
		reach("begun")
		if err := write.call(); err != nil {
			panic(err)
		}
		reach("returned")
	}
}

// Killed at any step, a writer leaves a record, or its outcome, whole or not at all.
func TestAWriterIsKilledAtEachStep(t *testing.T) {
	for _, of := range []string{"decision", "outcome"} {
		for i, step := range steps {
			t.Run(of+" "+step, func(t *testing.T) {
				dir := t.TempDir()
				s := opened(t, dir)
				if err := errors.Join(s.Append(record("earlier")), s.Close()); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), killedEnv+"="+of+":"+step+" "+dir)
				if out, err := cmd.CombinedOutput(); err == nil || err.Error() != "signal: killed" {
					t.Fatalf("%v: %s", err, out)
				}
				is, want := i >= slices.Index(steps, "renamed"), "earlier"
				if is || of == "outcome" {
					want = "earlier killed"
				}
				check := func() {
					t.Helper()
					if got := strings.Join(ids(t, dir), " "); got != want {
						t.Errorf("records %s, want %s", got, want)
					}
				}
				check()
				if found, _, err := Find(dir, Filter{What: "killed", All: true}, mebibyte); of == "outcome" && (err != nil || (found[0].Outcome != nil) != is) {
					t.Errorf("%+v, %v, want an outcome: %v", found, err, is)
				}
				s = opened(t, dir)
				check()
				if files := allFiles(t, dir); len(files) != 1+len(strings.Fields(want)) {
					t.Errorf("left: %v", files)
				}
				if err := errors.Join(s.Append(record("killed")), s.AppendOutcome(&decision.Outcome{ID: "killed", State: "given-up"})); err != nil {
					t.Error(err)
				}
				if found, _, err := Find(dir, Filter{What: "killed", All: true}, mebibyte); err != nil || len(found) != 1 || found[0].Outcome.State != "given-up" {
					t.Errorf("%+v, %v", found, err)
				}
			})
		}
	}
}

// After a restart each pod that is still there was recorded again, and evictd's own as the kubelet's.
func TestAnEvictionByAnotherProgramIsRecordedOnce(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	of := func(uid, message string, at time.Time) *decision.Decision {
		return &decision.Decision{
			Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindOther, Time: at, ByOthers: decision.ByOthers{By: "the kubelet"},
			Victim: &decision.Victim{Pod: "shop/" + uid, UID: uid, Message: message},
		}
	}
	own, dry, now := record("own"), record("dry"), time.Now()
	own.Victim.Message, dry.Victim.Message, dry.DryRun = "low on memory. Container main was using 3Gi. ", "low on memory. ", true
	if err := errors.Join(s.Append(own), s.Append(dry), s.Append(of("known", "low", now.Add(-time.Hour)))); err != nil {
		t.Fatal(err)
	}
	missing, err := s.Missing([]*decision.Decision{
		of("known", "low", now), of("uid-own", "low on memory. ", now), of("uid-own", "over its limit", now),
		of("uid-dry", "low on memory. ", now), of("new", "low", now), of("old", "low", now.Add(-s.MaxAge-time.Second)),
	})
	var got []string
	for _, d := range missing {
		got = append(got, d.Victim.UID+" "+d.Victim.Message)
	}
	if want := []string{"uid-own over its limit", "uid-dry low on memory. ", "new low"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, d := range missing {
		if err := s.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	heads, err := Heads(dir, Filter{What: "new"})
	if err != nil || len(heads) != 1 || heads[0].By != "the kubelet" || heads[0].Message != "low" {
		t.Errorf("%+v, %v", heads, err)
	}
}

// A record of a ticket that had gone through jq --sort-keys was listed as damaged.
func TestARecordInAnotherOrderIsListed(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{
		`{"kind":"eviction","node":"n","id":"20260101T120000.000Z-00000000","time":"2026-01-01T12:00:00Z","victim":{"pod":"shop/a","uid":"u","signal":"memory.available"},"version":1,"ranker":{"name":"memory"}}`,
		`{"version":1,"id":"20260101T120000.000Z-00000000","kind":"eviction","time":"2026-01-01T12:00:00Z","victim":{"pod":"shop/a","uid":"u","signal":"memory.available"},"node":"n","ranker":{"name":"memory"}}`,
		`{"version":1,"id":"20260101T120000.000Z-00000000","kind":"eviction","time":"2026-01-01T12:00:00Z","victim":{"pod":"shop/a","uid":"u","signal":"memory.available"},"ranker":{"name":"memory"},"node":"n"}`,
	} {
		testos.WriteFile(t, filepath.Join(dir, "20260101T120000.000Z-00000000_shop_a_u.json.gz"), zipped(t, []byte(text)), 0o600)
		for plugin, want := range map[string]int{"": 1, "memory": 1, "disk": 0} {
			heads, err := Heads(dir, Filter{Plugin: plugin})
			if err != nil || len(heads) != want || want > 0 && heads[0].Pod != "shop/a" {
				t.Errorf("%s of %q: %v, %v", text, plugin, heads, err)
			}
		}
	}
}
