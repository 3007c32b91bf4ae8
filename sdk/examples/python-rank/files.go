// Package pythonrank contains the example in Python, from which plugins can start.
package pythonrank

import "embed"

// Files are the sources of the example, without the descriptor of the protocol.
//
//go:embed __main__.py evictd.py rank.py build.sh
var Files embed.FS
