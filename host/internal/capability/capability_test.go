package capability

import "testing"

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		list []string
		want Set
		text string
	}{
		"nothing":            {nil, 0, "none"},
		"the first":          {[]string{"CAP_CHOWN"}, 1, "CAP_CHOWN"},
		"without the prefix": {[]string{"SYS_ADMIN"}, 1 << 21, "CAP_SYS_ADMIN"},
		"in lower case":      {[]string{"cap_checkpoint_restore"}, 1 << 40, "CAP_CHECKPOINT_RESTORE"},
		"twice":              {[]string{"KILL", "CAP_KILL", "BPF"}, 1<<5 | 1<<39, "CAP_KILL,CAP_BPF"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.list)
			if err != nil || got != c.want || got.String() != c.text {
				t.Errorf("got %#x (%s), %v, want %#x (%s)", uint64(got), got, err, uint64(c.want), c.text)
			}
		})
	}
}

func TestUnknownNames(t *testing.T) {
	got, err := Parse([]string{"CAP_ROOT", "KILL", ""})
	if err == nil || got != 1<<5 {
		t.Fatalf("got %s, %v, want CAP_KILL and an error", got, err)
	}
	want := `[0]: "CAP_ROOT" is no capability, want one of capabilities(7) such as "CAP_SYS_ADMIN"` + "\n" +
		`[2]: "" is no capability, want one of capabilities(7) such as "CAP_SYS_ADMIN"`
	if err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
}

func TestNumbersAreTheKernels(t *testing.T) {
	// Spot checks against capabilities of x/sys/unix would only repeat the list;
	// the last and the 32 bit boundary are where a slip shows.
	for name, n := range map[string]int{"SETFCAP": 31, "MAC_OVERRIDE": 32, "CHECKPOINT_RESTORE": 40} {
		if !Of(name).Has(n) {
			t.Errorf("%s is not %d", name, n)
		}
	}
}
