package host

import "github.com/evictd/evictd/host/internal/config"

// Config is the configuration of a Manager: evictd's file as it is in force.
type Config = config.Config
