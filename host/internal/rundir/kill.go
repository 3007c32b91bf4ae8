package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxMessageBytes keeps a kill with thousands of containers within the file limit.
	maxMessageBytes = 32 << 10
	maxNameBytes    = 253
	maxIDs          = 1000
	// maxGraceSeconds is the maximum of the API's int32, far beyond real grace periods.
	maxGraceSeconds = 1<<31 - 1
)

// A Kill is a kill of a pod that is not known to have ended.
type Kill struct {
	UID       string          `json:"uid"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Signal    eviction.Signal `json:"signal"`
	// GraceSeconds is the grace period decided on. In a loaded kill it is the rest of it, at least
	// 1, so that a restart never lengthens it.
	GraceSeconds int64    `json:"graceSeconds"`
	Message      string   `json:"message"`
	SandboxIDs   []string `json:"sandboxIDs,omitempty"`
	ContainerIDs []string `json:"containerIDs,omitempty"`
	// EvictedAt is the time of the decision on the wall clock, used in all reports of the eviction
	// by any component. Generation and ResourceVersion are the pod's.
	EvictedAt       time.Time `json:"evictedAt,omitzero"`
	Generation      int64     `json:"generation,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// Annotations of the event.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Record is the id of the decision's record, empty if none is kept.
	Record string `json:"record,omitempty"`
	// Limit: the pod exceeded its own limit; the node is not under pressure.
	Limit bool `json:"limit,omitempty"`
	// Steps done. Stopping: containers are being stopped through the runtime. Recorded: the API
	// server has the eviction. Announced: it has the event. Ended: the pod has ended or is no
	// longer awaited, and only the API server must still be informed.
	Stopping  bool `json:"stopping,omitempty"`
	Recorded  bool `json:"recorded,omitempty"`
	Announced bool `json:"announced,omitempty"`
	Ended     bool `json:"ended,omitempty"`
	// DecidedAt is when the kill was saved, on the clock of this process. Load sets it.
	DecidedAt time.Time `json:"-"`
	// GraceEnds is the end of the grace period, on the same clock. Load sets it.
	GraceEnds time.Time `json:"-"`
}

// decodeKill reads a file with a kill.
func decodeKill(data []byte, now moment) (Kill, error) {
	e, err := decode(data, now)
	if err == nil {
		err = e.Kill.validate()
	}
	if err != nil {
		return Kill{}, err
	}
	k, elapsed := e.Kill, now.since(e.Decided)
	k.DecidedAt = now.wall.Add(-elapsed)
	grace := min(max(k.GraceSeconds, 0), maxGraceSeconds)
	k.GraceEnds = k.DecidedAt.Add(time.Duration(grace) * time.Second)
	k.GraceSeconds = max(1, grace-int64(elapsed/time.Second))
	return k, nil
}

func (k *Kill) validate() error {
	var errs []error
	if k.UID == "" {
		errs = append(errs, errors.New("kill.uid is missing"))
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"uid", k.UID, maxNameBytes},
		{"namespace", k.Namespace, maxNameBytes},
		{"name", k.Name, maxNameBytes},
		{"signal", string(k.Signal), maxNameBytes},
		{"message", k.Message, maxMessageBytes},
		{"record", k.Record, maxNameBytes},
		{"resourceVersion", k.ResourceVersion, maxNameBytes},
	} {
		if len(f.value) > f.most {
			errs = append(errs, fmt.Errorf("kill.%s has %d bytes, want at most %d", f.name, len(f.value), f.most))
		}
	}
	if size := annotationBytes(k.Annotations); size > maxMessageBytes {
		errs = append(errs, fmt.Errorf("kill.annotations have %d bytes, want at most %d", size, maxMessageBytes))
	}
	return errors.Join(append(errs, checkIDs("kill.sandboxIDs", k.SandboxIDs), checkIDs("kill.containerIDs", k.ContainerIDs))...)
}

func annotationBytes(annotations map[string]string) (n int) {
	for key, value := range annotations {
		n += len(key) + len(value)
	}
	return n
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

// killName returns the file name for a uid: the uid itself if it is a safe file name, else a hash
// of it.
func killName(uid string) string {
	const most = 64
	harmless := uid != "" && len(uid) <= most && !strings.ContainsFunc(uid, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
	if !harmless {
		sum := sha256.Sum256([]byte(uid))
		// The upper-case prefix distinguishes it from uids used directly.
		uid = "SHA256-" + hex.EncodeToString(sum[:])
	}
	return uid + ".json"
}
