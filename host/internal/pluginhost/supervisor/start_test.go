package supervisor

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

func TestPluginThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	says := map[string][]string{
		"rubbish":             {`wrote "hello, I am not a plugin" to stdout`, "want go-plugin's handshake first"},
		"exits":               {"exited before the handshake (exit status 3)"},
		"closes-stdout":       {"closed its stdout before the handshake"},
		"protocol-9":          {"speaks protocol major 9, this host speaks 1"},
		"foreign-address":     {`listens on tcp "example.com:80"`, "want a unix socket"},
		"net-rpc":             {`speaks "netrpc", want "grpc"`, "sent no certificate"},
		"bad-certificate":     {"x509: malformed certificate"},
		"crashes-in-describe": {"describe: the plugin crashed (exit status 4)"},
		"invalid":             {"describe: invalid reply from plugin", `"unqualified"`},
	}
	h := startHost(t, install(t, append(slices.Collect(maps.Keys(says)), "good")...))
	for name, parts := range says {
		s := h.plugin(name)
		if s.State != Backoff && s.State != Starting && s.State != Quarantined {
			t.Errorf("%s is %s, want it to wait for another start", name, s.State)
		}
		want(t, s.LastError, parts...)
		want(t, h.log.String(), `"msg":"plugin did not start","plugin":"`+name+`"`)
	}
	if s := h.plugin("good"); s.State != Running {
		t.Errorf("good is %s (%s), want it to run beside bad ones", s.State, s.Reason)
	}
}

// A plugin that says no is asked again when the settings change, or much later,
// not in a loop.
func TestPluginThatRefuses(t *testing.T) {
	t.Parallel()
	says := map[string][]string{
		"refuses-host":   {"describe: plugin refused", `needs a host with feature "time-travel"`},
		"refuses-config": {"configure: plugin refused: config.color: unknown field, want none"},
		"schema-invalid": {"configure: plugin refused: schema: "},
		"a":              {"configure: plugin refused: config.color"},
	}
	h := startHost(t, install(t, "refuses-host", "refuses-config", "schema-invalid", "a"), func(o *Options) { o.Settings = configs("a", `"refuse"`) })
	for name, parts := range says {
		if s := h.plugin(name); s.State != Refused {
			t.Errorf("%s is %s, want it refused", name, s.State)
		}
		want(t, h.plugin(name).LastError, parts...)
		want(t, h.log.String(), `"msg":"plugin did not start","plugin":"`+name+`"`)
	}
	h.call(func(c *controller) { c.plugins["refuses-host"].pause.Reset(0) }) // it is over
	eventually(t, "another chance", func() bool { return h.plugin("refuses-host").Restarts > 0 })
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a runs with settings that it accepts", func() bool { return h.plugin("a").State == Running })
}

func TestPluginThatHangsAtStart(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "silent", "hangs-in-describe", "memory"), func(o *Options) {
		o.Timeouts.Handshake, o.Timeouts.Describe = 2*time.Second, 300*time.Millisecond
	})
	// Not at their first attempt, on a slow machine, and then within more.
	for name, why := range map[string]string{"silent": "not ready within ", "hangs-in-describe": "describe: no answer within "} {
		eventually(t, name+" tells why", func() bool { return strings.Contains(h.plugin(name).LastError, why) })
	}
	eventually(t, "the built-in plugin runs", func() bool { return h.plugin("memory").State == Running })
}

// The node is looked at soon after the host's start, whatever hangs, and custom
// plugins serve although one of them may still come.
func TestPluginThatHangsAtStartDelaysNoOther(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "silent", "good", "memory"), func(o *Options) { o.Timeouts.Start = 500 * time.Millisecond })
	if s := h.plugin("silent"); s.State != Starting {
		t.Errorf("silent is %s, want it still waited for", s.State)
	}
	for _, name := range []string{"good", "memory"} {
		eventually(t, name+" runs", func() bool { return h.plugin(name).State == Running })
	}
	want(t, h.log.String(), `"msg":"plugin start timed out","plugins":[`, `"silent"`)
}

func TestFileThatIsNoProgram(t *testing.T) {
	t.Parallel()
	dir := install(t, "good")
	says := map[string]string{
		"junk":   "it is no program for linux/" + runtime.GOARCH + ", nor a script that begins with #!",
		"script": "the interpreter or loader that it names is missing",
	}
	for name, text := range map[string]string{"junk": "just text", "script": "#!/nonexistent/python\n"} {
		testos.WriteFile(t, filepath.Join(dir, name), text, 0o755)
	}
	h := startHost(t, dir)
	for name, text := range says {
		eventually(t, name+" is refused", func() bool { return h.plugin(name).State == Refused })
		want(t, h.plugin(name).Reason, text)
	}
}

func TestUnaskedCertificateIsRefused(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "unasked-certificate"), plain("unasked-certificate"))
	want(t, h.plugin("unasked-certificate").LastError, "sent a certificate, want none: autoMTLS is off for it")
}

func TestSocketWithoutAListener(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "dead-socket"), plain("dead-socket"))
	want(t, h.plugin("dead-socket").LastError, "describe: plugin unavailable", "no such file")
}

func TestFileThatMustNotBeRun(t *testing.T) {
	t.Parallel()
	dir := install(t, "good", ".hidden", "half.tmp", "disk.dpkg-new", "disk.rpmsave", "disk;65a1b2c3", "disk.bak", "disk~", "disk.2", "Disk", "disk_old", "disk copy")
	write := func(name string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		testos.WriteFile(t, path, "#!/bin/true\n", mode)
		testos.Chmod(t, path, mode)
	}
	write("not-executable", 0o644)
	write("writable", 0o777)
	testos.Mkdir(t, filepath.Join(dir, "directory"), 0o755)
	open := privateDir(t)
	testos.Chmod(t, open, 0o777)
	put(t, open, "target", "target")
	for name, target := range map[string]string{"link-to-open": filepath.Join(open, "target"), "link-to-nothing": "/nonexistent/file", "loop": "loop"} {
		testos.Symlink(t, target, filepath.Join(dir, name))
	}
	h := startHost(t, dir)
	for name, says := range map[string]string{
		"not-executable":  dir + "/not-executable: mode 0644 is not executable, want for example 0755",
		"writable":        dir + "/writable: mode 0777 is writable by others than its owner, want at most 0755",
		"directory":       dir + "/directory: is a directory, want an executable regular file",
		"link-to-open":    open + ": mode 0777 is writable by others",
		"link-to-nothing": "no such file",
		"loop":            "more than 40 symbolic links",
	} {
		s := h.plugin(name)
		if s.State != Refused {
			t.Errorf("%s is %s, want it refused", name, s.State)
		}
		want(t, s.Reason, says)
	}
	if got := len(h.Status()); got != 7 {
		t.Errorf("%d plugins, want 7: dot files, *.tmp and what package managers keep do not count", got)
	}
	if s := h.plugin("good"); s.State != Running {
		t.Errorf("good is %s, want it to run beside the bad ones", s.State)
	}
}

func TestPluginDirectory(t *testing.T) {
	t.Parallel()
	open := privateDir(t)
	testos.Chmod(t, open, 0o777|os.ModeSticky)
	for name, c := range map[string]struct{ dir, says string }{
		"missing":             {"/nonexistent/plugins", "plugin directory /nonexistent/plugins: does not exist, want a directory"},
		"a file":              {faultyProgram, "is a regular file, want a directory"},
		"writable and sticky": {open, "mode 0777 is writable by others than its owner, want at most 0755"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{Dir: c.dir, SocketRoot: privateDir(t)})
			if err == nil {
				t.Fatal("no error")
			}
			want(t, err.Error(), c.says)
		})
	}
}

func TestSocketDirectoryTooDeep(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(privateDir(t), strings.Repeat("d", 60))
	_, err := New(Options{Dir: install(t), SocketRoot: deep})
	if err == nil {
		t.Fatal("no error")
	}
	want(t, err.Error(), "want at most 65")
}

func TestPluginEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("EVICTD_SECRET", "hunter2")
	h := startHost(t, install(t, "good"))
	p, i := h.pinned("good")
	defer p.Release()
	o, err := observe(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	env := o.Components[1].Name
	if strings.Contains(env, "hunter2") || strings.Contains(env, "HOME=") || strings.Contains(env, "PATH=") {
		t.Errorf("environment %s, want nothing of the host's", env)
	}
	want(t, env, "PLUGIN_UNIX_SOCKET_DIR="+h.sockets, "EVICTD_PARENT_FD=3", "PLUGIN_CLIENT_CERT=")
}

// Everything that goes wrong, and then nothing may be left: process, socket
// directory, descriptor or goroutine.
func TestNothingIsLeft(t *testing.T) {
	before := leaks.Now(t)
	h := startHost(t, install(t, "good", "megabytes", "leaves-child", "exits", "rubbish", "silent", "bad-certificate", "deaf",
		"hangs-in-describe", "refuses-config", "ignores-sigterm", "crashes-in-describe"), shortStop, plain("deaf"), func(o *Options) {
		o.Timeouts.Handshake, o.Timeouts.Describe = time.Second, 300*time.Millisecond
	})
	eventually(t, "good runs", func() bool { return h.plugin("good").State == Running })
	want(t, h.plugin("deaf").LastError, "not ready within ")
	p, i := h.pinned("good")
	if _, err := observe(t.Context(), i); err != nil {
		t.Error(err)
	}
	p.Release()
	h.stop()
	eventually(t, "no goroutine and no descriptor left", func() bool {
		return !leaks.Now(t).MoreThan(before)
	})
	if _, err := observe(t.Context(), i); err == nil {
		t.Error("observation after the end, want an error")
	} else {
		want(t, err.Error(), eviction.ErrUnavailable.Error())
	}
}
