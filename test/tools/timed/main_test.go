package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTestsThatFollowEachOtherAreTimed(t *testing.T) {
	output := "\x16=== RUN   TestA\n=== RUN   TestA/of_a\n    --- PASS: TestA/of_a (0.00s)\n\x16--- PASS: TestA (0.10s)\n" +
		"\x16=== RUN   TestB\nsaid without an end\x16--- FAIL: TestB (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n"
	clock, got := 0.0, []string{}
	var copied bytes.Buffer
	copyTimed(&copied, strings.NewReader(output), func(test string, seconds float64) {
		got = append(got, fmt.Sprint(test, " ", seconds))
	}, func() float64 { clock += 2.5; return clock })
	if want := "TestA 2.5, TestB 2.5"; strings.Join(got, ", ") != want {
		t.Errorf("timed %q, want %q", got, want)
	}
	if copied.String() != output {
		t.Errorf("copied %q, want %q", copied.String(), output)
	}
}

func TestTheExitCodeAndTheFileAreOfTheTests(t *testing.T) {
	if os.Getenv("TIMED_TEST_FAILS") != "" {
		os.Exit(3)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIMED_TEST_FAILS", "1")
	file := filepath.Join(t.TempDir(), "cpu")
	code, err := run(file, []string{self, "-test.run", "^TestTheExitCodeAndTheFileAreOfTheTests$"})
	if err != nil || code != 3 {
		t.Errorf("exit code %d, %v; want 3", code, err)
	}
	text, _ := os.ReadFile(file) // an empty one fails below
	if in, _ := os.Getwd(); !strings.HasPrefix(string(text), in+" - ") {
		t.Errorf("file %q", text)
	}
	if _, err := run(file, []string{filepath.Join(t.TempDir(), "none")}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a program: %v", err)
	}
}
