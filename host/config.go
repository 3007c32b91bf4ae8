package host

import "github.com/evictd/evictd/host/internal/config"

// Config is the configuration of a Manager: evictd's file as it is in force.
// DefaultConfig and LoadConfig make one.
type Config = config.Config

// DefaultConfig returns a configuration in which nothing was changed, for
// programs that fill one in themselves.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads a configuration file of evictd. It names all errors at once.
func LoadConfig(file string) (Config, error) { return config.Load(file) }
