package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// formatVersion is the journal's. A file of another version is not read.
	formatVersion = 1
	// maxMessageBytes keeps a kill with thousands of containers writable.
	maxMessageBytes = 32 << 10
	maxNameBytes    = 253
	maxIDs          = 1000
	// maxGraceSeconds is the API's int32 and far beyond any real grace period.
	maxGraceSeconds = 1<<31 - 1
)

// errOtherBoot is a file that an evictd of another boot wrote.
var errOtherBoot = errors.New("written in another boot")

// A Kill is a decision to end a pod that is not known to have ended.
type Kill struct {
	UID       string          `json:"uid"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Signal    eviction.Signal `json:"signal"`
	// GraceSeconds is the grace period decided on. In a loaded kill it is what is
	// left of it, at least 1, so that a restart never lengthens it.
	GraceSeconds int64    `json:"graceSeconds"`
	Message      string   `json:"message"`
	SandboxIDs   []string `json:"sandboxIDs,omitempty"`
	ContainerIDs []string `json:"containerIDs,omitempty"`
	// DecidedAt is when the kill was saved, on the clock of this process. It is
	// set by Load.
	DecidedAt time.Time `json:"-"`
	// GraceEnds is when the grace period decided on ends, on the same clock. It is set
	// by Load.
	GraceEnds time.Time `json:"-"`
}

// killFile is a Kill on disk.
type killFile struct {
	Version int    `json:"version"`
	BootID  string `json:"bootID"`
	Decided stamp  `json:"decided"`
	Kill    Kill   `json:"kill"`
}

func encodeKill(k Kill, now moment) killFile {
	k.Message = strings.ToValidUTF8(k.Message[:min(len(k.Message), maxMessageBytes)], "")
	return killFile{Version: formatVersion, BootID: now.bootID, Decided: now.at(now.wall), Kill: k}
}

// decodeKill trusts nothing: the bytes may be anybody's. Unknown fields are fine,
// since a newer evictd may have written them.
func decodeKill(data []byte, now moment) (Kill, error) {
	var f killFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Kill{}, err
	}
	if err := checkHeader(f.Version, f.BootID, now); err != nil {
		return Kill{}, err
	}
	k := f.Kill
	if err := k.validate(); err != nil {
		return Kill{}, err
	}
	elapsed := now.since(f.Decided)
	k.DecidedAt = now.wall.Add(-elapsed)
	grace := min(max(k.GraceSeconds, 0), maxGraceSeconds)
	k.GraceEnds = k.DecidedAt.Add(time.Duration(grace) * time.Second)
	k.GraceSeconds = max(1, grace-int64(elapsed/time.Second))
	return k, nil
}

func checkHeader(version int, bootID string, now moment) error {
	switch {
	case version != formatVersion:
		return fmt.Errorf("has version %d, want %d", version, formatVersion)
	case bootID == "":
		return errors.New("bootID is missing")
	case bootID != now.bootID:
		return errOtherBoot
	}
	return nil
}

func (k *Kill) validate() error {
	var errs []error
	if k.UID == "" {
		errs = append(errs, errors.New("kill.uid is missing"))
	}
	for _, f := range []struct{ name, value string }{
		{"uid", k.UID}, {"namespace", k.Namespace}, {"name", k.Name}, {"signal", string(k.Signal)},
	} {
		if len(f.value) > maxNameBytes {
			errs = append(errs, fmt.Errorf("kill.%s has %d bytes, want at most %d", f.name, len(f.value), maxNameBytes))
		}
	}
	if len(k.Message) > maxMessageBytes {
		errs = append(errs, fmt.Errorf("kill.message has %d bytes, want at most %d", len(k.Message), maxMessageBytes))
	}
	return errors.Join(append(errs, checkIDs("kill.sandboxIDs", k.SandboxIDs), checkIDs("kill.containerIDs", k.ContainerIDs))...)
}

func checkIDs(field string, ids []string) error {
	if len(ids) > maxIDs {
		return fmt.Errorf("%s has %d entries, want at most %d", field, len(ids), maxIDs)
	}
	for i, id := range ids {
		if id == "" || len(id) > maxNameBytes {
			return fmt.Errorf("%s[%d] has %d bytes, want 1 to %d", field, i, len(id), maxNameBytes)
		}
	}
	return nil
}

// killName is the file of a uid: the uid itself, as long as that is a harmless
// file name, else a hash of it.
func killName(uid string) string {
	const most = 64
	harmless := uid != "" && len(uid) <= most && !strings.ContainsFunc(uid, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
	if !harmless {
		sum := sha256.Sum256([]byte(uid))
		// The capital keeps it apart from any uid that is its own name.
		uid = "SHA256-" + hex.EncodeToString(sum[:])
	}
	return uid + ".json"
}
