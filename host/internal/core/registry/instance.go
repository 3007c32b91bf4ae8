package registry

import (
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// An Instance is one running process of a plugin, or an in-process plugin. Use NewInstance for one
// that will be published.
type Instance struct {
	// Name is the plugin's name, from its file or its map key.
	Name string
	// Generation grows with each start of any plugin.
	Generation uint64
	// PID is 0 for an in-process plugin.
	PID int
	// Plugin is the plugin's description of itself. Its capabilities are calls with deadlines and
	// checked replies. They may be used while the instance is pinned, and fail at some time
	// afterwards.
	Plugin *eviction.Plugin
	// Overspent, if not nil, takes notice that a decision has waited so long for the plugin that no
	// time is left for others.
	Overspent func(spent time.Duration)

	unused chan struct{}
	// users counts the pins of it, plus the current registry. Current maintains it.
	users int
}

// NewInstance returns an instance for publishing.
func NewInstance(name string, generation uint64, pid int, p *eviction.Plugin) *Instance {
	return &Instance{Name: name, Generation: generation, PID: pid, Plugin: p, unused: make(chan struct{})}
}

// Builtin reports whether a plugin of that name is built-in. All others are custom and take
// precedence.
func Builtin(name string) bool { return name == Summary || len(eviction.SignalsOf(name)) > 0 }

// Builtin reports whether the plugin is built-in, by its name.
func (i *Instance) Builtin() bool { return Builtin(i.Name) }

// Unused is closed when a published instance is no longer published or pinned: it gets no more
// calls.
func (i *Instance) Unused() <-chan struct{} { return i.unused }

// Ended reports whether Unused is closed.
func (i *Instance) Ended() bool {
	select {
	case <-i.unused:
		return true
	default:
		return false
	}
}

// Current holds the registry in force. Make one with NewCurrent.
type Current struct {
	mu       sync.Mutex
	registry *Registry
}

// NewCurrent returns a Current with an empty registry.
func NewCurrent() *Current { return &Current{registry: &Registry{}} }

// Publish puts a registry in force.
func (c *Current) Publish(r *Registry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	former := c.registry
	c.registry = r
	use(r.instances, 1)
	use(former.instances, -1)
}

// Registry returns the registry in force, whose instances may end at any time.
func (c *Current) Registry() *Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registry
}

// Pin pins the registry for a pass. The caller must release it.
func (c *Current) Pin() *Pin {
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.registry.instances, 1)
	return &Pin{Registry: c.registry, current: c, kept: c.registry.instances}
}

// A Pin keeps the instances of one registry alive: none of them is ended or replaced until Release,
// or until Keep excludes it. They may still crash.
type Pin struct {
	*Registry

	current *Current
	kept    []*Instance
}

// Keep keeps only the needed instances pinned: the others may be ended at any time.
func (p *Pin) Keep(needed func(*Instance) bool) {
	p.current.mu.Lock()
	defer p.current.mu.Unlock()
	former := p.kept
	p.kept = nil
	for _, i := range former {
		if needed(i) {
			p.kept = append(p.kept, i)
		} else {
			use([]*Instance{i}, -1)
		}
	}
}

// Release ends the pin. Releasing twice is harmless.
func (p *Pin) Release() {
	p.current.mu.Lock()
	defer p.current.mu.Unlock()
	use(p.kept, -1)
	p.Registry, p.kept = &Registry{}, nil
}

// MissingObserver returns why no plugin observes sig although one should: a plugin that has a file,
// and observed sig when it last ran, does not run. It is nil if there is no such plugin: none was
// ever there, or it was removed or disabled, which disables the signal. A plugin that started after
// the pass began counts as missing too.
func (p *Pin) MissingObserver(sig eviction.Signal) error {
	return p.current.Registry().awaited(p.Registry, sig, func(Plugin) bool { return true })
}

// FirstStart reports whether a plugin that should serve sig is still in its first start: it has
// neither served nor failed by itself. One that was too late is retried with more time, and one
// that started after the pass began serves in the next one.
func (p *Pin) FirstStart(sig eviction.Signal) bool {
	return p.current.Registry().awaited(p.Registry, sig, func(p Plugin) bool { return p.Instance != nil || p.FirstStart }) != nil
}

// use counts a user of instances in or out, and signals the instances no longer in use.
func use(instances []*Instance, n int) {
	for _, i := range instances {
		if i.users += n; i.users == 0 && i.unused != nil {
			close(i.unused)
		}
	}
}
