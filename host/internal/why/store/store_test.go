package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/test/harness/testos"
)

const mebibyte = 1 << 20

func open(t testing.TB, dir string) *Store {
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

// heads are the ids of what is kept.
func ids(t testing.TB, dir string) []string {
	t.Helper()
	var got []string
	problems := Each(dir, func(e *Entry) error {
		r, err := e.Decision()
		if err != nil {
			return err
		}
		if r.ID != e.ID {
			return fmt.Errorf("record %s under the head of %s", r.ID, e.ID)
		}
		got = append(got, r.ID)
		return nil
	})
	if problems != nil {
		t.Fatal(problems)
	}
	return got
}

func TestRecordsAreThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 3 {
		if err := s.Append(record(fmt.Sprint("r", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AppendOutcome(&decision.Outcome{ID: "r1", State: "finished", GoneMS: 12}); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, dir); strings.Join(got, " ") != "r0 r1 r2" {
		t.Errorf("while it is written: %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Append(record("r3")); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, dir); strings.Join(got, " ") != "r0 r1 r2 r3" {
		t.Errorf("after a restart: %v", got)
	}
	found, err := Find(dir, "uid-r1")
	if err != nil || len(found) != 1 || found[0].ID != "r1" || found[0].Outcome == nil || found[0].Outcome.GoneMS != 12 {
		t.Errorf("found %+v, %v", found, err)
	}
}

// The log had the id of an eviction, and evictd replay said that there is no record of it.
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
				s, began := open(t, dir), time.Now()
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
				found, err := Find(dir, id)
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

func TestASegmentIsReadWithZcat(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, id := range []string{"a", "b"} {
		if err := s.Append(record(id)); err != nil {
			t.Fatal(err)
		}
	}
	names, _, err := segmentNames(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	data := testos.ReadFile(t, names[0])
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if lines := strings.Count(string(text), "\n"); err != nil || lines != 2 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

func TestTwoDoNotWriteToOneDirectory(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := New(Options{Dir: dir, MaxBytes: mebibyte, MaxAge: time.Hour}).Open(); err == nil || !strings.Contains(err.Error(), "in use by another evictd") {
		t.Errorf("a second store: %v", err)
	}
}

// Whatever a record is cut to, those before it stay, and it is not taken for one.
func TestATornEndIsCut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Append(record("whole")); err != nil {
		t.Fatal(err)
	}
	whole := s.size
	if err := s.Append(record("torn")); err != nil {
		t.Fatal(err)
	}
	name, all := s.file.Name(), s.size
	data := testos.ReadFile(t, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for cut := whole; cut < all; cut++ {
		for _, rest := range []int64{0, all - cut} { // short, or of zeros as after a power failure
			torn := append(bytes.Clone(data[:cut]), make([]byte, rest)...)
			if bytes.Equal(torn, data) {
				continue
			}
			testos.WriteFile(t, name, torn, 0o600)
			s := New(s.Options)
			if err := s.Open(); err != nil {
				t.Fatal(err)
			}
			if got := ids(t, dir); strings.Join(got, " ") != "whole" {
				t.Fatalf("cut to %d of %d and %d zeros: %v", cut, all, rest, got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A record in the middle that is damaged, or a newer evictd's, takes none of the others with it.
func TestWhatIsDamagedIsNotCut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var ends []int64
	for _, id := range []string{"first", "second", "third"} {
		r := record(id)
		r.Victim.Pod = "shop/report"
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.size)
	}
	name := s.file.Name()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data := testos.ReadFile(t, name)
	for _, at := range []int64{ends[0], ends[0] + lengthAt + 4, ends[1] - 9} { // its mark, its head, its text
		damaged := bytes.Clone(data)
		damaged[at] ^= 0xff
		testos.WriteFile(t, name, damaged, 0o600)
		s := New(s.Options)
		if err := s.Open(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("damaged at byte %d: %d bytes are left of %d, %v", at, len(now), len(damaged), err)
		}
	}
	// Now its text is damaged.
	if found, err := Find(dir, "shop/report"); len(found) != 2 || found[1].ID != "third" || err == nil || !strings.Contains(err.Error(), "second") {
		t.Errorf("found %d, %v; want the two that are whole and an error that names the other", len(found), err)
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

func TestOldSegmentsMakeRoom(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Dir: dir, MaxBytes: 64 << 10, MaxAge: time.Hour})
	defer s.Close()
	for i := range 400 {
		if err := s.Append(record(fmt.Sprintf("r%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	total, names := int64(0), segmentsOf(t, dir)
	for _, name := range names {
		at, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += at.Size()
	}
	got := ids(t, dir)
	if total > 64<<10 || total < 32<<10 || got[len(got)-1] != "r399" || len(got) == 400 {
		t.Errorf("%d bytes in %d segments, %d records, the last one %s", total, len(names), len(got), got[len(got)-1])
	}
}

func segmentsOf(t *testing.T, dir string) []string {
	t.Helper()
	names, _, err := segmentNames(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestOldRecordsGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Append(record("old")); err != nil {
		t.Fatal(err)
	}
	old := s.file.Name()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Append(record("new")); err != nil {
		t.Fatal(err)
	}
	monthAgo := time.Now().Add(-721 * time.Hour)
	if err := os.Chtimes(old, monthAgo, monthAgo); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, dir); strings.Join(got, " ") != "new" {
		t.Errorf("kept: %v", got)
	}
}

// On a full disk a record is lost and the next one that fits is whole.
func TestAFullDiskLosesRecordsAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	full := errors.New("no space left on device")
	for i := range 20 {
		s.write = (*os.File).Write
		if i%2 == 1 {
			s.write = func(f *os.File, data []byte) (int, error) {
				n, err := f.Write(data[:rand.IntN(len(data))])
				return n, errors.Join(full, err)
			}
		}
		if err := s.Append(record(fmt.Sprintf("r%02d", i))); (i%2 == 1) != errors.Is(err, full) {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	if got := ids(t, dir); len(got) != 10 || got[9] != "r18" {
		t.Errorf("kept: %v", got)
	}
}

func TestADirectoryThatWasRemovedIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	s := open(t, dir)
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

// writerEnv has this test binary write records and print the id of each one that is kept.
const writerEnv = "EVICTD_TEST_WRITES_RECORDS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		s, err := New(Options{Dir: dir, MaxBytes: mebibyte, MaxAge: time.Hour}), error(nil)
		for i := 0; err == nil; i++ {
			id := fmt.Sprintf("%d-%06d", os.Getpid(), i)
			if err = s.Append(record(id)); err == nil {
				fmt.Println(id)
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Killed at any moment, a writer has lost nothing that it has said to be kept, and has left
// nothing that is half a record.
func TestAWriterIsKilledAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	for range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, said, last := bufio.NewScanner(out), 0, ""
		for most := rand.IntN(10); lines.Scan(); {
			last = lines.Text()
			if said++; said > most {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		if err := open(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, dir); !strings.Contains(strings.Join(got, " "), last) {
			t.Fatalf("%s was kept, and is not there: %v", last, got)
		}
	}
}

func FuzzSegment(f *testing.F) {
	data, err := encode(record("a").Head(), record("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = members(bytes.NewReader(data), int64(len(data)), all, func(m member) error {
			text, err := document(bytes.NewReader(data), m)
			if err == nil {
				_, err = decision.Decode(text)
			}
			return err
		})
	})
}

// evictd read a sparse file of 1 TiB for minutes when it started, recorded nothing meanwhile, and
// removed all other records to make room for it.
func TestASparseFileOfATebibyteIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Append(record("before")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(dir, time.Now().UTC().Format("20060102T150405.000000000Z")+suffix)
	if err := errors.Join(os.WriteFile(sparse, nil, 0o600), os.Truncate(sparse, 1<<40)); err != nil {
		t.Skip(err)
	}
	began := time.Now()
	s = open(t, dir)
	if err := s.Append(record("after")); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(); err == nil || !strings.Contains(err.Error(), sparse) || !strings.Contains(err.Error(), "1099511627776 bytes") {
		t.Errorf("told when records are pruned: %v, want the file and its size", err)
	}
	found, err := Find(dir, "before")
	if err == nil || !strings.Contains(err.Error(), sparse) {
		t.Errorf("told when records are read: %v, want the file", err)
	}
	heads, _ := Heads(dir)
	if len(found) != 1 || len(heads) != 2 || heads[1].ID != "after" {
		t.Errorf("kept: %v and %v, want the record before and the one after", found, heads)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
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
		"forward":                      {jump: month, wantRecords: "before jumped after"},
		"forward, before evictd began": {jump: month, restarts: true, wantRecords: "before jumped after"},
		"backward":                     {jump: -month, wantRecords: "before jumped after"},
		"no jump, it is a month later": {jump: month, ran: month, wantRecords: "jumped after"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			keep := func(id string) {
				t.Helper()
				if err := s.Append(record(id)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(s.file.Name(), s.now(), s.now()); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(s.endSegment(), s.Prune()); err != nil {
					t.Fatal(err)
				}
			}
			keep("before")
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
			keep("jumped")
			keep("after")
			if got := strings.Join(ids(t, dir), " "); got != c.wantRecords {
				t.Errorf("records that are left: %s, want %s", got, c.wantRecords)
			}
		})
	}
}
