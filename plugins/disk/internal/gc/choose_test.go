package gc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// made reads "pod/container@created ..." into dead containers.
func made(text string) []dead {
	var out []dead
	for field := range strings.FieldsSeq(text) {
		var d dead
		at := strings.Split(field, "@")
		d.uid, d.name, _ = strings.Cut(at[0], "/")
		if _, err := fmt.Sscan(at[1], &d.createdNanos); err != nil {
			panic(err)
		}
		d.id = field
		out = append(out, d)
	}
	return out
}

func ids(all []dead) string {
	var out []string
	for _, d := range all {
		out = append(out, d.id)
	}
	return strings.Join(out, " ")
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		have         string
		gone         string
		perContainer int
		total        int
		want         string
	}{
		"nothing":                                     {perContainer: 1, total: -1},
		"the newest of each container stays":          {have: "p/a@1 p/a@3 p/a@2 p/b@9", perContainer: 1, total: -1, want: "p/a@1 p/a@2"},
		"all of a pod that may go":                    {have: "p/a@1 p/a@2 q/a@3", gone: "p", perContainer: 1, total: -1, want: "p/a@1 p/a@2"},
		"no limit per container":                      {have: "p/a@1 p/a@2", perContainer: -1, total: -1},
		"zero per container is zero":                  {have: "p/a@1 p/a@2 q/b@1", perContainer: 0, total: -1, want: "p/a@1 p/a@2 q/b@1"},
		"a total leaves each container its share":     {have: "p/a@1 p/a@2 p/a@3 q/a@4 q/a@5", perContainer: -1, total: 4, want: "p/a@1"},
		"a total below the containers: oldest first":  {have: "p/a@1 q/a@3 r/a@2", perContainer: 1, total: 1, want: "p/a@1 r/a@2"},
		"a total of none":                             {have: "p/a@1 q/a@2", perContainer: 1, total: 0, want: "p/a@1 q/a@2"},
		"a total that is kept":                        {have: "p/a@1 q/a@2", perContainer: 1, total: 2},
		"a total counts only pods that are there":     {have: "p/a@1 p/a@2 q/a@1", gone: "p", perContainer: 1, total: 1, want: "p/a@1 p/a@2"},
		"containers of one name in two pods are two":  {have: "p/a@1 q/a@1", perContainer: 1, total: -1},
		"two containers of one pod are not one":       {have: "p/a@1 p/b@1", perContainer: 1, total: -1},
		"an equal age is decided by id, always alike": {have: "p/a@1 p/a@01", perContainer: 1, total: -1, want: "p/a@1"},
	} {
		t.Run(name, func(t *testing.T) {
			mayGo := func(uid string) bool { return slices.Contains(strings.Fields(c.gone), uid) }
			if got := ids(choose(made(c.have), mayGo, c.perContainer, c.total)); got != c.want {
				t.Errorf("chose %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever the limits: what stays is the newest of each container, nobody is chosen
// twice, and with limits of one or more each container of a pod that stays keeps
// its last instance unless the total forbids it.
func TestChooseKeepsTheNewest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var all []dead
		for i := range random.IntN(30) {
			all = append(all, dead{
				unit: unit{fmt.Sprint("p", random.IntN(4)), fmt.Sprint("c", random.IntN(3))}, id: fmt.Sprint(i), createdNanos: int64(i),
			})
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		perContainer, total := random.IntN(5)-1, random.IntN(12)-1
		mayGo := func(uid string) bool { return uid == "p0" }
		gone := map[string]bool{}
		for _, d := range choose(slices.Clone(all), mayGo, perContainer, total) {
			if gone[d.id] {
				t.Fatalf("%s was chosen twice", d.id)
			}
			gone[d.id] = true
		}
		left := 0
		kept, removedAfter := map[unit]int{}, map[unit]int64{}
		for _, d := range all {
			if gone[d.id] {
				removedAfter[d.unit] = max(removedAfter[d.unit], d.createdNanos+1)
				continue
			}
			left++
			kept[d.unit]++
		}
		for _, d := range all {
			switch {
			case d.uid == "p0" && !gone[d.id]:
				t.Fatalf("a container of a pod that may go stayed: %+v", d)
			case !gone[d.id] && d.createdNanos < removedAfter[d.unit]:
				t.Fatalf("an older container stayed than one that went: %+v", d)
			case perContainer >= 0 && kept[d.unit] > perContainer:
				t.Fatalf("%d of %+v stayed, want at most %d", kept[d.unit], d.unit, perContainer)
			case d.uid != "p0" && perContainer != 0 && total < 0 && kept[d.unit] == 0:
				t.Fatalf("nothing of %+v stayed", d.unit)
			}
		}
		if total >= 0 && left > total {
			t.Fatalf("%d stayed, want at most %d", left, total)
		}
	}
}
