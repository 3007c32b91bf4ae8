package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An answer classifies the API server's reply to an eviction.
type answer int

const (
	accepted answer = iota
	// gone: the pod does not exist any more.
	gone
	// over: the pod has ended, or is being deleted, which the kubelet handles.
	over
	// refused: evictd lacks a right, or a policy denies the write.
	refused
	// away: no answer; the eviction may have been stored anyway.
	away
	// conflict: the pod has changed meanwhile.
	conflict
)

// meaning classifies an error of PatchPodStatus.
func meaning(err error) answer {
	if err == nil {
		return accepted
	}
	if errors.Is(err, errOver) {
		return over
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) || apierrors.IsUnexpectedServerError(err) { // or a proxy answers in its place
		return away
	}
	switch code := s.Status().Code; {
	case code == http.StatusNotFound || ofAnotherPod(s.Status()):
		return gone
	case code == http.StatusConflict:
		return conflict
	case code == http.StatusInternalServerError && notPassed.MatchString(s.Status().Message):
		return refused
	case code < 400 || code >= 500:
		return away
	case code == http.StatusUnauthorized, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return away // other credentials, or a later time, may succeed
	}
	if m := denial.FindStringSubmatch(err.Error()); m != nil && (m[2] == endedAlready || m[2] == deletedAlready) {
		return over
	}
	return refused
}

// Messages of the admission policy shipped with evictd that do not indicate a problem.
const (
	endedAlready   = "the pod has ended already"
	deletedAlready = "the pod is being deleted already"
)

// ofAnotherPod reports whether a pod of that name has another uid: the API server then answers 422,
// like an admission policy that denies a write.
func ofAnotherPod(s metav1.Status) bool {
	if s.Code != http.StatusUnprocessableEntity {
		return false
	}
	const field, cause = "metadata.uid", "field is immutable"
	if s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == field && strings.Contains(c.Message, cause)
	}) {
		return true
	}
	return !denial.MatchString(s.Message) && strings.Contains(s.Message, field) && strings.Contains(s.Message, cause)
}

var (
	// denial matches the API server's message for a write that an admission policy denies.
	denial = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: (.*)`)
	// notPassed matches errors about a webhook that rejects every write, and about a pod that is too large.
	notPassed = regexp.MustCompile(`failed calling webhook|request is too large`)
	// missing matches its message about a role that lacks a verb.
	missing = regexp.MustCompile(`cannot (\S+) resource "([^"]*)"`)
)

// lacksRight reports whether the authorizer refused, which does not depend on the form of the
// eviction. Messages of admission contain "denied".
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "denied")
}

// inWords rewords a refusal to say what must change for the eviction to be accepted.
func inWords(err error) error {
	text := err.Error()
	if m := denial.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("the admission policy %s denies it: %s", m[1], m[2])
	}
	if m := missing.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("evictd lacks the right to it, its role must have the verb %s for %s: %w", m[1], m[2], err)
	}
	return err
}
