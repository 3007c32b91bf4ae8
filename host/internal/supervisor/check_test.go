package supervisor

import (
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/evictd/evictd/shared/eviction"
)

// A ranking's strings are cut from one message. What is kept of it for the history
// must be small, and must not keep the message.
func TestARankingDoesNotKeepTheMessageThatItCameIn(t *testing.T) {
	message := "abidlex" + strings.Repeat("é", maxReasonBytes)
	ranked := []eviction.Ranked{{UID: message[:1], Reason: message[2:6]}, {UID: message[1:2], Reason: message[6:]}, {UID: "c"}}
	uids := []string{"c", "b", "a"}
	if err := checkRanking(len(uids), func(i int) string { return uids[i] }, ranked); err != nil {
		t.Fatal(err)
	}
	if ranked[0].UID != "a" || ranked[0].Reason != "idle" || ranked[2] != (eviction.Ranked{UID: "c"}) {
		t.Errorf("ranking %.100q, want what is short as it was", ranked)
	}
	if r := ranked[1].Reason; len(r) != maxReasonBytes-1 || !utf8.ValidString(r) {
		t.Errorf("a reason of %d bytes, valid: %v, want %d whole runes", len(r), utf8.ValidString(r), maxReasonBytes/2)
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(message)))
	for _, r := range ranked[:2] {
		for _, s := range []string{r.UID, r.Reason} {
			if at := uintptr(unsafe.Pointer(unsafe.StringData(s))); at >= begin && at < begin+uintptr(len(message)) {
				t.Errorf("%.20q is a piece of the message", s)
			}
		}
	}
}
