package nodejs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	example = "sdk/examples/node-rank"
	proto   = "shared/proto/descriptor.binpb"
	// npmDeadline is for one command of npm, with its downloads.
	npmDeadline = 3 * time.Minute
)

// built is where the example was built: a copy of what is committed, so that
// nothing in the working tree helps.
var built struct {
	once   sync.Once
	dir    string
	absent error // npm or its registry is not there
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// bundle returns the directory of the built example.
func bundle(t *testing.T) string {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	built.once.Do(func() { built.absent, built.err = build() })
	switch {
	case built.absent != nil && os.Getenv("CI") == "true":
		t.Fatalf("the plugin in Node.js cannot be built: %v", built.absent)
	case built.absent != nil:
		t.Skipf("NOT TESTED: the plugin in Node.js cannot be built: %v", built.absent)
	case built.err != nil:
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, example)
}

func plugin(t *testing.T) string {
	t.Helper()
	return filepath.Join(bundle(t), "dist/node-rank")
}

func build() (absent, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: apt-get install nodejs npm", err), nil
		}
	}
	if built.dir, err = os.MkdirTemp("", "evictd-node-"); err != nil {
		return nil, err
	}
	if err := copyTree(); err != nil {
		return nil, err
	}
	out, err := npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
	for _, unreachable := range []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"} {
		if err != nil && strings.Contains(out, unreachable) {
			return fmt.Errorf("npm ci: the registry is not reachable: %s", unreachable), nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if out, err := npm("run", "build"); err != nil {
		return nil, fmt.Errorf("npm run build: %w\n%s", err, out)
	}
	return nil, nil
}

// copyTree copies the example and the protocol, at the same places to each other.
func copyTree() error {
	for _, name := range []string{"", "test"} {
		from := filepath.Join("../../..", example, name)
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(built.dir, example, name, e.Name())); err != nil {
				return err
			}
		}
	}
	return copyFile(filepath.Join("../../..", proto), filepath.Join(built.dir, proto))
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644))
}

func npm(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), npmDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = filepath.Join(built.dir, example)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The example's own tests: its order, and the bundle as a process.
func TestTheExamplesOwnTests(t *testing.T) {
	bundle(t)
	if out, err := npm("test"); err != nil {
		t.Errorf("npm test: %v\n%s", err, out)
	}
}
