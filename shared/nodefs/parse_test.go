package nodefs

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// parseCases maps the name of an input to what a parser makes of it.
type parseCases map[string]struct {
	in      string
	want    int64
	wantErr string
}

func (all parseCases) run(t *testing.T, parse func([]byte) (int64, error)) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(c.in))
			checkParsed(t, got, err, c.want, c.wantErr)
		})
	}
}

func TestParseAmount(t *testing.T) {
	parseCases{
		"a number":              {in: "690917376\n", want: 690917376},
		"without a line break":  {in: "0", want: 0},
		"the largest":           {in: "9223372036854775807\n", want: math.MaxInt64},
		"beyond int64":          {in: "9223372036854775808\n", wantErr: "too large"},
		"beyond uint64":         {in: "18446744073709551616\n", wantErr: "too large"},
		"empty":                 {in: "", wantErr: "not a number"},
		"a word":                {in: "max\n", wantErr: "not a number"},
		"negative":              {in: "-1\n", wantErr: "not a number"},
		"more than one":         {in: "1 2\n", wantErr: "not one number"},
		"garbage is cut short":  {in: strings.Repeat("x", 4000), wantErr: "not a number"},
		"a number and then NUL": {in: "12\x00", wantErr: "not one number"},
	}.run(t, parseAmount)
}

func TestParseLimit(t *testing.T) {
	for name, c := range map[string]struct {
		in          string
		want        int64
		wantLimited bool
		wantErr     string
	}{
		"a limit":                      {in: "8589934592\n", want: 8589934592, wantLimited: true},
		"zero is a limit":              {in: "0\n", wantLimited: true},
		"max of version 2":             {in: "max\n"},
		"the default of version 1":     {in: "9223372036854771712\n"},
		"exactly 1<<62 is a limit yet": {in: strconv.Itoa(1<<62) + "\n", want: 1 << 62, wantLimited: true},
		"one more is not":              {in: strconv.Itoa(1<<62+1) + "\n"},
		"-1 as uint64":                 {in: "18446744073709551615\n"},
		"a word":                       {in: "maximum\n", wantErr: "not a number"},
		"two":                          {in: "1 1\n", wantErr: "not one number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, limited, err := parseLimit([]byte(c.in))
			checkParsed(t, got, err, c.want, c.wantErr)
			if limited != c.wantLimited {
				t.Errorf("limited = %v, want %v", limited, c.wantLimited)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		key     []byte
		want    int64
		wantErr string
	}{
		"in the middle":                {in: "cache 1\ninactive_file 2\nx 3\n", key: keyInactiveFile, want: 2},
		"first":                        {in: "anon 7\nfile 8\n", key: keyAnon, want: 7},
		"last, no line break":          {in: "anon 7\nfile 8", key: keyFile, want: 8},
		"not the end of a longer key":  {in: "total_inactive_file 5\ninactive_file 6\n", key: keyInactiveFile, want: 6},
		"not the start of another key": {in: "file_mapped 5\nfile 6\n", key: keyFile, want: 6},
		"only a longer key":            {in: "total_inactive_file 5\n", key: keyInactiveFile, wantErr: "no inactive_file"},
		"empty file":                   {in: "", key: keyTotalInactiveFile, wantErr: "no total_inactive_file"},
		"no number":                    {in: "anon \n", key: keyAnon, wantErr: "anon: "},
		"a fraction":                   {in: "anon 1.5\n", key: keyAnon, wantErr: "not one number"},
		"too large":                    {in: "anon 9223372036854775808\n", key: keyAnon, wantErr: "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(c.in), c.key)
			checkParsed(t, got, err, c.want, c.wantErr)
		})
	}
}

func TestParseMemTotal(t *testing.T) {
	parseCases{
		"as the kernel prints it": {in: "MemTotal:       24684096 kB\nMemFree:        1 kB\n", want: 24684096 << 10},
		"not first":               {in: "Other: 1 kB\nMemTotal: 2 kB\n", want: 2048},
		"missing":                 {in: "MemFree: 1 kB\n", wantErr: "no MemTotal"},
		"another unit":            {in: "MemTotal: 1 MB\n", wantErr: "not in kB"},
		"too large in bytes":      {in: "MemTotal: 9223372036854775807 kB\n", wantErr: "too large"},
		"no number":               {in: "MemTotal: kB\n", wantErr: "not a number"},
		"nothing":                 {in: "MemTotal: 0 kB\n", wantErr: "no MemTotal"},
	}.run(t, parseMemTotal)
}

func TestRootUsageThatOverflowsIsAnError(t *testing.T) {
	_, err := parseRootUsage([]byte("anon 9223372036854775807\nfile 1\n"))
	checkParsed(t, 0, err, 0, "too large")
}

func checkParsed(t *testing.T, got int64, err error, want int64, wantErr string) {
	t.Helper()
	switch {
	case wantErr != "":
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("error = %v, want one with %q", err, wantErr)
		} else if len(err.Error()) > 200 {
			t.Errorf("error has %d bytes, want it short", len(err.Error()))
		}
	case err != nil || got != want:
		t.Errorf("got %d, %v, want %d", got, err, want)
	}
}

// The properties of all parsers: no panic, nothing negative, and a number that
// the kernel would print comes back.

func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"", "0\n", "690917376\n", "18446744073709551616", "1 2", "max"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := parseAmount(in)
		want, wantErr := strconv.ParseInt(strings.TrimSpace(string(in)), 10, 64)
		if err == nil && (wantErr != nil || got != want || got < 0) {
			t.Errorf("parseAmount(%q) = %d, strconv says %d, %v", in, got, want, wantErr)
		}
	})
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"", "max\n", "9223372036854771712\n", "8589934592\n", "4611686018427387904"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, limited, err := parseLimit(in)
		if got < 0 || got > unlimitedAbove || (!limited || err != nil) && got != 0 {
			t.Errorf("parseLimit(%q) = %d, %v, %v", in, got, limited, err)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("anon 1\nfile 2\ninactive_file 3\ntotal_inactive_file 4\n"))
	f.Add([]byte("inactive_file \n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, key := range [][]byte{keyAnon, keyFile, keyInactiveFile, keyTotalInactiveFile} {
			got, err := parseStat(in, key)
			if got < 0 || err != nil && got != 0 {
				t.Errorf("parseStat(%q, %q) = %d, %v", in, key, got, err)
			}
		}
		if got, err := parseRootUsage(in); got < 0 || err != nil && got != 0 {
			t.Errorf("parseRootUsage(%q) = %d, %v", in, got, err)
		}
	})
}

func FuzzParseMemTotal(f *testing.F) {
	f.Add([]byte("MemTotal:       24684096 kB\nMemFree:        24278868 kB\n"))
	f.Add([]byte("MemTotal: 9007199254740993 kB"))
	f.Add([]byte("\nMemTotal:"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := parseMemTotal(in)
		if got < 0 || got%1024 != 0 || err != nil && got != 0 {
			t.Errorf("parseMemTotal(%q) = %d, %v", in, got, err)
		}
	})
}

func FuzzHasController(f *testing.F) {
	f.Add([]byte("cpuset cpu io memory pids\n"))
	f.Add([]byte("memory_recursiveprot\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if hasController(in, "memory") && !strings.Contains(string(in), "memory") {
			t.Errorf("hasController(%q) found memory", in)
		}
	})
}
