package find

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/testos"
)

// 1,000 evictions of one night on a node of 110 pods took 144 MiB, more than a command in the pod of evictd may have.
func TestReadingManyRecordsIsBounded(t *testing.T) {
	dir := t.TempDir()
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	const documents, size = 30, 1 << 20
	for i := range documents {
		id := decision.NewID(at.Add(time.Duration(i) * time.Millisecond))
		d := &decision.Decision{
			Version: decision.Version, ID: id, Time: decision.IDTime(id), Kind: decision.KindEviction,
			Victim: &decision.Victim{UID: fmt.Sprint("uid-", i), Pod: fmt.Sprintf("shop/report-%d", i), Owner: "ReplicaSet/report"},
		}
		for range size >> 10 {
			d.Candidates = append(d.Candidates, decision.Candidate{Pod: strings.Repeat("p", 1<<10)})
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(text); errors.Join(err, z.Close()) != nil {
			t.Fatal(err)
		}
		testos.WriteFile(t, filepath.Join(dir, fmt.Sprintf("%s_shop_report-%d_uid-%d.json.gz", id, i, i)), packed.String(), 0o600)
	}
	said := ""
	r := Resolver{Dir: func() (string, error) { return dir, nil }, Say: func(text string) { said += text }}
	heads, err := store.Heads(dir, store.Filter{})
	if err != nil || len(heads) != documents {
		t.Fatalf("%d heads, %v", len(heads), err)
	}
	for what, since := range map[string]time.Duration{"": time.Hour, "replicaset/shop/report": 0, "shop/": 0, heads[0].Episode: 0} {
		said = ""
		found, err := r.FindAll(what, since)
		n := len(found)
		if err != nil || n < documents/4 || n > maxBytes/size || found[n-1].ID != heads[documents-1].ID || found[0].ID != heads[documents-n].ID {
			t.Errorf("%q: %d records, %v, want the newest with at most %d bytes", what, n, err, maxBytes)
		}
		if want := fmt.Sprintf("%d older records are left out: at most 8 MiB are read at once. Use a shorter --since, or list all with evictctl evictions", documents-n); said != want {
			t.Errorf("%q: said %q, want %q", what, said, want)
		}
	}
	said = ""
	if one, older, err := store.Find(dir, store.Filter{}, 1); err != nil || len(one) != 1 || older != documents-1 || one[0].ID != heads[documents-1].ID {
		t.Errorf("%d records, %d older, %v: want the newest, whatever its size", len(one), older, err)
	}
	found, err := r.FindAll(heads[3].ID, 0)
	if err != nil || len(found) != 1 || found[0].ID != heads[3].ID || said != "" {
		t.Errorf("%d records, %v, said %q", len(found), err, said)
	}
	if all, err := r.Newest(time.Hour); err != nil || len(all) != documents || all[3].ID != heads[3].ID {
		t.Errorf("%d heads, %v: want all, whose records are read one after another", len(all), err)
	}
	if _, err := r.Find("20200101T000000.000Z-00000000"); !errors.Is(err, store.ErrNone) {
		t.Errorf("a record that has gone meanwhile: %v", err)
	}
}
