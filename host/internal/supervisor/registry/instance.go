package registry

import (
	"sync"

	"github.com/evictd/evictd/shared/eviction"
)

// An Instance is one running process of a plugin, or one of the host's own. Use
// NewInstance for one that is to be published.
type Instance struct {
	// Name is the plugin's name, that of its file or of its place in a map.
	Name string
	// Generation is different for each start of any plugin and grows.
	Generation uint64
	// PID is 0 for a plugin of the host's own process.
	PID int
	// Plugin is the plugin's description of itself. Its capabilities are calls that have
	// deadlines of their own and whose replies are checked. They may be used as long as the
	// instance is pinned, and fail afterwards at the latest.
	Plugin *eviction.Plugin

	unused chan struct{}
	// users are the pins that have it and the current registry, counted by Current.
	users int
}

// NewInstance returns an instance that can be published.
func NewInstance(name string, generation uint64, pid int, p *eviction.Plugin) *Instance {
	return &Instance{Name: name, Generation: generation, PID: pid, Plugin: p, unused: make(chan struct{})}
}

// Builtin reports whether a plugin of that name comes with the host. All others
// are custom and go before them.
func Builtin(name string) bool { return len(eviction.SignalsOf(name)) > 0 }

// Builtin reports whether the plugin is one of those that come with the host, by
// its name.
func (i *Instance) Builtin() bool { return Builtin(i.Name) }

// Unused is closed when an instance that was published is so no more and no pin has
// it: no call of it follows.
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

// Current is the registry in force. Make one with NewCurrent.
type Current struct {
	mu       sync.Mutex
	registry *Registry
}

// NewCurrent returns a registry without plugins, in force.
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

// Pin starts a pass. It must be released.
func (c *Current) Pin() *Pin {
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.registry.instances, 1)
	return &Pin{Registry: c.registry, current: c, kept: c.registry.instances}
}

// A Pin keeps the instances of one moment alive: none of them is ended for its timeouts or
// replaced until Release, or until Keep says that others are enough. It cannot keep one from
// crashing.
type Pin struct {
	*Registry

	current *Current
	kept    []*Instance
}

// Keep has the pin keep only those that are needed on: the others may be ended at any time.
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

// Release ends the pass. Releasing twice is harmless.
func (p *Pin) Release() {
	p.current.mu.Lock()
	defer p.current.mu.Unlock()
	use(p.kept, -1)
	p.Registry, p.kept = &Registry{}, nil
}

// MissingObserver returns why no plugin observes sig although one should: a plugin
// whose file is there, and that observed sig when it last ran, does not run. It
// is nil if there is no such plugin: none has come, or it was removed or
// disabled, which is how signals are switched off. One that has come up since the
// pass began does not serve in it, and is awaited as well.
func (p *Pin) MissingObserver(sig eviction.Signal) error {
	return p.current.Registry().awaited(p.Registry, sig, func(Plugin) bool { return true })
}

// FirstStart reports whether a plugin that should serve sig is still in its first
// start: it has neither served nor failed by itself. One that was too late is tried
// again, with more time, and one that has come up since the pass began will serve in
// the next one.
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
