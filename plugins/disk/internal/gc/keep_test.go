package gc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func TestWhichNamesAPatternMatches(t *testing.T) {
	const digest = "@sha256:0123456789abcdef"
	for name, c := range map[string]struct {
		pattern       string
		tags, digests []string
		id            string
		want          bool
	}{
		"the whole tag":                      {pattern: "registry.local/team/app:1.2", tags: []string{"registry.local/team/app:1.2"}, want: true},
		"another tag":                        {pattern: "registry.local/team/app:1.2", tags: []string{"registry.local/team/app:1.20"}},
		"the name of each tag":               {pattern: "registry.local/team/app", tags: []string{"registry.local/team/app:1.2"}, want: true},
		"a longer name":                      {pattern: "registry.local/team/app", tags: []string{"registry.local/team/app2:1.2"}},
		"a slash":                            {pattern: "registry.local/*", tags: []string{"registry.local/team/app:1.2"}, want: true},
		"another registry":                   {pattern: "registry.local/*", tags: []string{"evil/registry.local/app:1"}},
		"no part":                            {pattern: "app", tags: []string{"registry.local/team/app:1.2"}},
		"the second tag":                     {pattern: "b:1", tags: []string{"a:1", "b:1"}, want: true},
		"a registry with a port":             {pattern: "localhost:5000/app", tags: []string{"localhost:5000/app:1"}, want: true},
		"a port is no tag":                   {pattern: "localhost", tags: []string{"localhost:5000/app"}},
		"a digest":                           {pattern: "*" + digest, digests: []string{"registry.local/app" + digest}, want: true},
		"pulled by digest":                   {pattern: "registry.local/app", digests: []string{"registry.local/app" + digest}, want: true},
		"the id":                             {pattern: "sha256:aa", id: "sha256:aa", want: true},
		"the id as it is listed":             {pattern: "aa*", id: "sha256:aabb", want: true},
		"the id of another runtime":          {pattern: "sha256:aa", id: "aa"},
		"the short name":                     {pattern: "busybox:*", tags: []string{"docker.io/library/busybox:1.36"}, want: true},
		"the short name alone":               {pattern: "busybox", tags: []string{"docker.io/library/busybox:1.36"}, want: true},
		"the short name with a digest":       {pattern: "busybox@*", digests: []string{"docker.io/library/busybox" + digest}, want: true},
		"the half name":                      {pattern: "library/busybox", tags: []string{"docker.io/library/busybox:1"}, want: true},
		"the long name":                      {pattern: "docker.io/library/busybox:1", tags: []string{"docker.io/library/busybox:1"}, want: true},
		"a user's short name":                {pattern: "bitnami/redis", tags: []string{"docker.io/bitnami/redis:7"}, want: true},
		"another registry has no short name": {pattern: "busybox", tags: []string{"quay.io/library/busybox:1"}},
		"all else is itself":                 {pattern: "a.c:[1]?", tags: []string{"abc:1"}},
		"all else is itself, again":          {pattern: "a.c:[1]?*", tags: []string{"a.c:[1]?"}, want: true},
		"both ends do not overlap":           {pattern: "aba*ba", tags: []string{"aba"}},
		"both ends":                          {pattern: "aba*ba", tags: []string{"ababa"}, want: true},
		"an order":                           {pattern: "*b*a*", tags: []string{"ab"}},
		"everything":                         {pattern: "*", id: "x", want: true},
		"no name at all":                     {pattern: "a", id: ""},
	} {
		got := gc.Settings{KeepImages: []string{"-", c.pattern}}.Kept()(c.tags, c.digests, c.id)
		if got != c.want {
			t.Errorf("%s: %q on %q, %q, %q: %v", name, c.pattern, c.tags, c.digests, c.id, got)
		}
	}
}

func TestWhichImagesAreImported(t *testing.T) {
	kept := gc.Settings{ImportedImages: true}.Kept()
	for name, c := range map[string]struct {
		tags, digests []string
		want          bool
	}{
		"imported":                     {[]string{"a:1"}, nil, true},
		"pulled":                       {[]string{"a:1"}, []string{"a@sha256:1"}, false},
		"pulled, the tag moved on":     {nil, []string{"a@sha256:1"}, false},
		"superseded by another import": {nil, nil, false},
	} {
		if got := kept(c.tags, c.digests, "sha256:1"); got != c.want {
			t.Errorf("%s: kept %v", name, got)
		}
	}
	if (gc.Settings{ImageGCToTarget: true}).Kept() != nil {
		t.Error("a rule without keepImages and importedImages")
	}
}

func TestPatternsThatAreWrong(t *testing.T) {
	many := slices.Repeat([]string{"a"}, 257)
	for name, c := range map[string]struct {
		patterns []string
		want     string
	}{
		"good":     {[]string{"*", strings.Repeat("a", 512)}, ""},
		"the most": {many[1:], ""},
		"too many": {many, "keepImages has 257 patterns, want at most 256"},
		"empty":    {[]string{"a", ""}, `keepImages[1] is "", want a name such as "registry.local/team/*"`},
		"white space": {[]string{"a b", "a\u00a0b", "a\n"}, `keepImages[0] is "a b" with white space, want a name such as "registry.local/team/*"` + "\n" +
			`keepImages[1] is "a\u00a0b" with white space, want a name such as "registry.local/team/*"` + "\n" +
			`keepImages[2] is "a\n" with white space, want a name such as "registry.local/team/*"`},
		"long": {[]string{strings.Repeat("a", 513)}, `keepImages[0] begins with "` + strings.Repeat("a", 40) + `" and has 513 bytes, want at most 512`},
	} {
		got := ""
		if err := (gc.Settings{KeepImages: c.patterns}).Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: error\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// 256 of the longest patterns and tags of a megabyte kept image GC from its end.
func TestHostileNamesTakeBoundedTime(t *testing.T) {
	for name, pattern := range map[string]string{
		"asterisks": strings.Repeat("*a", 255) + "b",
		"a part":    "*" + strings.Repeat("a", 254) + "b" + strings.Repeat("a", 254) + "*",
	} {
		kept := gc.Settings{KeepImages: slices.Repeat([]string{pattern}, 256)}.Kept()
		began := time.Now()
		if kept([]string{strings.Repeat("a", 1<<20)}, nil, "") {
			t.Errorf("%s: matches", name)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// FuzzPattern compares image GC's rule with another program of it.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a*b", "acb"}, {"*", ""}, {"", ""}, {"**a", "\xff"}, {"a*a", "a"}, {"*a.c*", "abc a.c"}, {"h:5/a", "h:5/a:1@sha256:0"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		s := gc.Settings{KeepImages: []string{pattern}}
		if s.Validate() != nil || len(name) > 1000 || strings.HasPrefix(name, "docker.io/") {
			t.Skip()
		}
		if got, want := s.Kept()([]string{name}, nil, "-"), oracle(s)([]string{name}, nil, "-"); got != want {
			t.Errorf("%q on %q is %v, want %v", pattern, name, got, want)
		}
	})
}

var nameAlone = regexp.MustCompile(`(?s)^(.*?)(:[^:/@]*)?(@.*)?$`)

// oracle is another program of the rule, for names that are not from docker.io.
func oracle(s gc.Settings) func(tags, digests []string, id string) bool {
	return func(tags, digests []string, id string) bool {
		names := []string{id, strings.TrimPrefix(id, "sha256:")}
		for _, n := range slices.Concat(tags, digests) {
			names = append(names, n, nameAlone.FindStringSubmatch(n)[1])
		}
		for _, pattern := range s.KeepImages {
			if slices.ContainsFunc(names, func(name string) bool { return tableMatches(pattern, name) }) {
				return true
			}
		}
		return s.ImportedImages && len(tags) > 0 && len(digests) == 0
	}
}

// tableMatches compares each beginning of a name with each beginning of a pattern.
func tableMatches(pattern, name string) bool {
	row := make([]bool, len(name)+1) // of the pattern's beginning so far
	row[0] = true
	for _, c := range []byte(pattern) {
		next := make([]bool, len(name)+1)
		next[0] = row[0] && c == '*'
		for i := range len(name) {
			next[i+1] = c == '*' && (next[i] || row[i+1]) || c != '*' && row[i] && name[i] == c
		}
		row = next
	}
	return row[len(name)]
}

// keeping is a store with images: free and new were pulled, hand was imported, ours is from the
// node's own registry.
func keeping(t *testing.T, s gc.Settings) *store {
	t.Helper()
	n := newStore(t, s)
	n.addImages("free", "new", "running")
	n.AddImage(&runtimeapi.Image{Id: "sha256:hand", RepoTags: []string{"docker.io/library/hand:1"}, Size: 2000})
	n.AddImage(&runtimeapi.Image{Id: "sha256:ours", RepoTags: []string{"registry.local/team/ours:1"}, RepoDigests: []string{"registry.local/team/ours@sha256:1"}, Size: 3000})
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:running"}}})
	return n
}

// Nothing could bring an image back that was imported by hand, on a node without a way out.
func TestKeptImagesStay(t *testing.T) {
	age := gc.Duration(time.Hour)
	shortage := eviction.Reclaimed{Bytes: 1 << 40}
	ways := map[string]struct {
		settings gc.Settings
		collect  func(t *testing.T, n *store) (eviction.Reclaimed, error)
	}{
		"under pressure": {gc.Settings{}, func(t *testing.T, n *store) (eviction.Reclaimed, error) {
			return n.collector.Images(t.Context(), shortage, nil)
		}},
		"to the target": {gc.Settings{ImageGCToTarget: true}, func(t *testing.T, n *store) (eviction.Reclaimed, error) {
			return n.collector.Images(t.Context(), shortage, nil)
		}},
		"by age":   {gc.Settings{ImageMaximumGCAge: &age}, func(t *testing.T, n *store) (eviction.Reclaimed, error) { return n.collect(t, 10) }},
		"by usage": {gc.Settings{}, func(t *testing.T, n *store) (eviction.Reclaimed, error) { return n.collect(t, 95) }},
	}
	options := map[string]struct {
		patterns []string
		imported bool
		left     string
		says     string
	}{
		"off":            {left: "running", says: "kept 1 in use, 0 pinned or for sandboxes, 0 too new"},
		"keepImages":     {patterns: []string{"registry.local/*", "hand:*"}, left: "hand ours running", says: "kept 1 in use, 0 pinned or for sandboxes, 2 by keepImages, 0 too new"},
		"importedImages": {imported: true, left: "hand running", says: "kept 1 in use, 0 pinned or for sandboxes, 1 by importedImages, 0 too new"},
		"both":           {patterns: []string{"*/ours"}, imported: true, left: "hand ours running", says: "2 by keepImages and importedImages, 0 too new"},
		"no such image":  {patterns: []string{"registry.local/"}, left: "running", says: "0 by keepImages, 0 too new"},
	}
	for name, way := range ways {
		for what, option := range options {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := way.settings
					s.KeepImages, s.ImportedImages = option.patterns, option.imported
					n := keeping(t, s)
					if err := n.collector.Detect(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Hour)
					done, err := way.collect(t, n)
					if _, short := errors.AsType[*gc.ShortError](err); err != nil && !short {
						t.Error(err)
					}
					n.wantLeft(t, "afterwards", option.left)
					wantIn(t, "message", done.Message, option.says)
				})
			})
		}
	}
}

// An image that is both in use or pinned and kept by a pattern counts once.
func TestAKeptImageCountsOnce(t *testing.T) {
	n := aged(t, gc.Settings{KeepImages: []string{"*"}})
	n.addImages("free", "running", "pause")
	n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true})
	n.SetSandboxImage("example.org/pause:1")
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:running"}}})
	done, err := n.collectImages(t)
	if err != nil || n.leftImages() != "free pause pinned running" {
		t.Errorf("error %v, left %q", err, n.leftImages())
	}
	wantIn(t, "message", done.Message, "removed 0 images", "kept 1 in use, 2 pinned or for sandboxes, 1 by keepImages, 0 too new")
}

// A pod was evicted although the disk was full of images, and only the list of images showed why.
func TestTheMessageSaysWhatKeptImagesHoldWhenTooLittleIsFree(t *testing.T) {
	const note = "2 images of 4.9 KiB are kept by keepImages"
	for name, c := range map[string]struct {
		patterns []string
		want     int64
		inodes   int64
		says     bool
	}{
		"short of inodes":          {[]string{"hand", "registry.local/*"}, 0, 5, true},
		"enough inodes":            {[]string{"hand", "registry.local/*"}, 0, 2, false},
		"short":                    {[]string{"hand", "registry.local/*"}, 3000, 0, true},
		"enough":                   {[]string{"hand", "registry.local/*"}, 1500, 0, false},
		"a host that says no sum":  {[]string{"hand", "registry.local/*"}, 0, 0, false},
		"no sum, and none removed": {[]string{"*"}, 0, 0, false},
		"short, and nothing kept":  {[]string{"nothing"}, 9000, 0, false},
		"short, and no such field": {nil, 9000, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				n := keeping(t, gc.Settings{KeepImages: c.patterns})
				n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}}}})
				o := n.collector.Options
				written := int64(0) // the node keeps writing
				o.Statfs = func(string) (nodefs.FilesystemSample, error) {
					written++
					return nodefs.FilesystemSample{FreeBytes: 1000*int64(5-len(n.ImageIDs())) - written, InodesFree: int64(5 - len(n.ImageIDs()))}, nil
				}
				done, err := gc.New(o).Images(t.Context(), eviction.Reclaimed{Bytes: c.want, Inodes: c.inodes}, nil)
				if err != nil || strings.Contains(done.Message, "are kept by") != c.says || c.says && !strings.Contains(done.Message, note) {
					t.Errorf("%+v, %v, want %q in it: %v", done, err, note, c.says)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := keeping(t, gc.Settings{KeepImages: []string{"hand", "registry.local/*"}})
		_, err := n.collect(t, 95)
		if short, ok := errors.AsType[*gc.ShortError](err); !ok || !strings.HasSuffix(short.Error(), "or other data. "+note+".") {
			t.Errorf("error %v, want %q", err, note)
		}
	})
}

// A reload applies to the next image GC, and to the one that runs.
func TestAReloadChangesWhichImagesAreKept(t *testing.T) {
	n := keeping(t, gc.Settings{})
	n.settings.KeepImages = []string{"*"}
	n.collector.Apply(n.settings)
	if _, err := n.collector.Images(t.Context(), eviction.Reclaimed{}, nil); err != nil {
		t.Error(err)
	}
	n.wantLeft(t, "all are kept", "free hand new ours running")
	n.settings.KeepImages = []string{"registry.local/*"}
	n.collector.Apply(n.settings)
	if _, err := n.collector.Images(t.Context(), eviction.Reclaimed{}, nil); err != nil {
		t.Error(err)
	}
	n.wantLeft(t, "one is kept", "ours running")
}

// Whatever there is: image GC removes no kept image in any of its ways, and with patterns that were
// not applied it does.
func TestNoKeptImageGoes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	patterns := []string{"r.io/*", "*:1", "r.io/b", "*@sha256:d*", "sha256:0001", "0002", "*a*:*", "nothing"}
	lost, kept, gone := 0, 0, 0
	for round := range 400 {
		synctest.Test(t, func(t *testing.T) {
			var s gc.Settings
			for range random.IntN(3) {
				s.KeepImages = append(s.KeepImages, patterns[random.IntN(len(patterns))])
			}
			s.ImportedImages, s.ImageGCToTarget = random.IntN(3) == 0, random.IntN(2) == 0
			age := gc.Duration(time.Duration(random.IntN(2)) * time.Hour)
			s.ImageMaximumGCAge = &age
			n := newStore(t, s)
			planted := round%2 == 1
			if planted {
				n.settings.KeepImages, n.settings.ImportedImages = nil, false
				n.collector.Apply(n.settings)
			}
			var all []*runtimeapi.Image
			for i := range random.IntN(8) {
				name := fmt.Sprintf("%s/%c", []string{"r.io", "s.io:5000"}[random.IntN(2)], 'a'+random.IntN(3))
				image := &runtimeapi.Image{Id: fmt.Sprintf("sha256:%04x", i), Size: uint64(random.IntN(3000))}
				for tag := range random.IntN(3) {
					image.RepoTags = append(image.RepoTags, fmt.Sprintf("%s:%d", name, tag))
				}
				if random.IntN(2) == 0 {
					image.RepoDigests = []string{name + "@sha256:d"}
				}
				all = append(all, image)
				n.AddImage(image)
			}
			if err := n.collector.Detect(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			var err error
			if random.IntN(2) == 0 {
				_, err = n.collect(t, int64(random.IntN(20)+80))
			} else {
				_, err = n.collector.Images(t.Context(), eviction.Reclaimed{Bytes: int64(random.IntN(9000))}, nil)
			}
			if _, short := errors.AsType[*gc.ShortError](err); err != nil && !short {
				t.Fatalf("round %d: %v", round, err)
			}
			left := n.ImageIDs()
			for _, image := range all {
				stays := slices.Contains(left, image.GetId())
				switch keep := oracle(s)(image.GetRepoTags(), image.GetRepoDigests(), image.GetId()); {
				case !keep && !stays:
					gone++
				case keep && stays:
					kept++
				case keep && planted:
					lost++
				case keep:
					t.Errorf("round %d: %v is gone, kept by %q, imported %v", round, image, s.KeepImages, s.ImportedImages)
				}
			}
		})
	}
	t.Logf("%d kept, %d gone, %d lost where the patterns were not applied", kept, gone, lost)
	if kept == 0 || gone == 0 || lost == 0 {
		t.Errorf("%d kept, %d gone, %d lost where the patterns were not applied: want some of each", kept, gone, lost)
	}
}
