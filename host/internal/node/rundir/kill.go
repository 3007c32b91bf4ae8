package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/victim"
)

const (
	// maxMessageBytes keeps a kill with thousands of containers within the file limit.
	maxMessageBytes = 32 << 10
	maxNameBytes    = 253
	maxIDs          = 1000
	// maxGraceSeconds is the maximum of the API's int32, far beyond real grace periods.
	maxGraceSeconds = 1<<31 - 1
)

// decodeKill reads a file with a kill.
func decodeKill(data []byte, now moment) (victim.Kill, error) {
	e, err := decode(data, now)
	if err == nil {
		err = validate(&e.Kill)
	}
	if err != nil {
		return victim.Kill{}, err
	}
	k, elapsed := e.Kill, now.since(e.Decided)
	k.DecidedAt = now.wall.Add(-elapsed)
	grace := min(max(k.GraceSeconds, 0), maxGraceSeconds)
	k.GraceEnds = k.DecidedAt.Add(time.Duration(grace) * time.Second)
	k.GraceSeconds = max(1, grace-int64(elapsed/time.Second))
	return k, nil
}

func validate(k *victim.Kill) error {
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
