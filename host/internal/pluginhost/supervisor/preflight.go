package supervisor

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
)

// Check validates the plugin directory and the settings of o as Run will, but starts nothing. The
// errors would make New or the start of a plugin fail, the warnings are about what has no effect or
// may be refused later.
func Check(o Options) (errs []error, warnings []string) {
	names, err := plugindir.Names(o.Dir)
	if err != nil {
		return []error{err}, nil
	}
	for _, name := range names {
		if o.Settings[name].Disabled {
			continue
		}
		err := checkPlugin(o, name)
		if _, socket := plugindir.Path(o.Dir, name); socket && err == nil && startPolicyFor(o.Settings, name).confines(name) {
			warnings = append(warnings, fmt.Sprintf("plugin %s: it is a socket, so that capabilities, limits, writablePaths, group and autoMTLS have no effect: they are those of its own pod", name))
		}
		switch {
		case err == nil:
		case errors.Is(err, plugindir.ErrIncomplete), errors.Is(err, errNoPlugin):
			warnings = append(warnings, fmt.Sprintf("plugin %s: %v", name, err))
		default:
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
	}
	return errs, warnings
}

// errNoPlugin reports a file that is probably not meant to be a plugin.
var errNoPlugin = errors.New("is refused")

// checkPlugin makes the checks that precede a start.
func checkPlugin(o Options, name string) error {
	path, socket := plugindir.Path(o.Dir, name)
	policy := startPolicyFor(o.Settings, name)
	if socket {
		_, err := policy.checkSocket(name, path)
		return err
	}
	looked, gone := plugindir.Identify(path)
	resolved, err := plugindir.Executable(path)
	if err != nil {
		if _, named := o.Settings[name]; !named && !registry.Builtin(name) && resolved != "" {
			return fmt.Errorf("%w: %w", errNoPlugin, err)
		}
		return err
	}
	if gone != nil { // it has come back since
		return gone
	}
	if err := policy.possible(name); err != nil {
		return err
	}
	return plugindir.TryOpen(resolved, looked, policy.pin)
}
