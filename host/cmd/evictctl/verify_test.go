package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/shared/testos"
)

// script makes an executable that is no plugin.
func script(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	testos.WriteFile(t, path, "#!/bin/sh\necho 'hello \033[31mred'\nexec sleep 60\n", 0o700)
	return path
}

func TestVerifyTellsWhatIsWrong(t *testing.T) {
	path := script(t)
	got := evictctl(t, "plugins", "verify", path)
	if got.Code != command.ExitFailure || got.Errors != "evictctl: "+path+" fails 1 of 6 checks\n" {
		t.Errorf("code %d, errors %q", got.Code, got.Errors)
	}
	for _, want := range []string{
		"ok       start\n",
		"FAIL     handshake-line\n           call:     (handshake)\n           input:    the environment of a host with AutoMTLS, no arguments\n" +
			"           expected: first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE\n" + `           seen:     wrote "hello \x1b[31mred" to stdout, want go-plugin's handshake first`,
		"skipped  handshake-major and 3 more         not run after handshake-line failed\n",
		"6 checks in ", ": 1 ok, 1 failed, 4 skipped, 0 with a note\n",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %q in\n%s", want, got.Out)
		}
	}
}

// Who looks at some checks only must not take the report for one of all.
func TestVerifyOfSomeChecksSaysSo(t *testing.T) {
	for want, args := range map[string][]string{
		"\nonly the checks of rank, process were asked for\n": {"--only", "rank,process", script(t)},
		"\n6 checks in ": {script(t)},
	} {
		got := evictctl(t, append([]string{"plugins", "verify"}, args...)...)
		if !strings.Contains(got.Out, want) || strings.Contains(got.Out, "asked for") != (len(args) > 1) {
			t.Errorf("%q: no %q in\n%s", args, want, got.Out)
		}
	}
}

func TestVerifyAsJSON(t *testing.T) {
	got := evictctl(t, "plugins", "verify", "--json", "--auto-mtls=false", script(t))
	var report conformance.Report
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil {
		t.Fatal(err)
	}
	if got.Code != command.ExitFailure || len(report.Checks) != 6 || report.Count(conformance.Failed) != 1 || !strings.Contains(report.Checks[0].Input, "without AutoMTLS") {
		t.Errorf("code %d, report %+v", got.Code, report)
	}
}

func TestVerifyWithAWrongCommandLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testos.WriteFile(t, path, text, 0o600)
		return path
	}
	path := script(t)
	module := filepath.Join(dir, "own")
	testos.MkdirAll(t, filepath.Join(module, "bin"), 0o700)
	testos.Symlink(t, path, filepath.Join(module, "bin", "own"))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no binary":            {nil, "got 0 arguments, want one: the executable of a plugin"},
		"a binary that is not": {[]string{filepath.Join(dir, "absent")}, "no such file"},
		"a directory":          {[]string{dir}, "not a regular file"},
		"a plugin's module":    {[]string{module}, "did you mean " + module + "/bin/own"},
		"not executable":       {[]string{write("text", "x")}, "chmod +x"},
		"no config file":       {[]string{path, "--config", filepath.Join(dir, "absent")}, "--config: "},
		"config is no object":  {[]string{path, "--config", write("list", "- a\n")}, "is not a mapping"},
		"config twice":         {[]string{path, "--config", write("twice", "a: 1\na: 2\n")}, `a: given twice, again on line 2`},
		"both":                 {[]string{path, "--socket", "/s.sock"}, "got an executable and --socket /s.sock, want one of them"},
		"no socket":            {[]string{"--socket", path}, path + " is not a socket"},
		"limits of a socket":   {[]string{"--socket", "/s.sock", "--user", "nobody"}, "none of the others can be; [socket user] were all set"},
		"no time":              {[]string{path, "--timeout", "0s"}, "want more than 0"},
		"no such user":         {[]string{path, "--user", "no-such-user"}, "--user, --memory-limit: user: \"no-such-user\""},
		"no limit":             {[]string{path, "--memory-limit", "much"}, `--memory-limit: "much": quantities must match`},
		"an endless limit":     {[]string{path, "--memory-limit", "1e-999999999"}, `--memory-limit: "1e-999999999": exponent "e-999999999" is too large`},
		"a limit of 64 bytes":  {[]string{path, "--memory-limit", "64"}, `--memory-limit: "64": want 16Mi or more`},
		"no such group":        {[]string{path, "--only", "rank,rang"}, `--only is "rang", want some of describe, observe, `},
		"another flag":         {[]string{path, "--destroy"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			got := evictctl(t, append([]string{"plugins", "verify"}, c.args...)...)
			if got.Code != command.ExitUsage || !strings.Contains(got.Errors, c.want) || got.Out != "" {
				t.Errorf("code %d, want %q in %q; %s", got.Code, c.want, got.Errors, got.Out)
			}
		})
	}
}
