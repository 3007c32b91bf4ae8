package loop

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// StatusEvent returns reason and message of the event, of type Normal, about a change of condition c.
func StatusEvent(c eviction.Condition, status bool, _ policy.Assessment, _ map[eviction.Signal]eviction.Observation) (reason, message string) {
	reason = policy.ConditionText(c, status).EventReason
	return reason, "Node status is now: " + reason
}

// SeenEvent is StatusEvent for a node whose conditions are a kubelet's: it says what evictd sees.
func SeenEvent(c eviction.Condition, status bool, a policy.Assessment, observed map[eviction.Signal]eviction.Observation) (reason, message string) {
	if !status {
		return policy.Word(c) + "NotObserved", "evictd does not see " + string(c) + " any more"
	}
	message = "evictd sees " + string(c)
	if i := slices.IndexFunc(a.Observed, func(t policy.Observed) bool { return t.Definition().Condition == c }); i >= 0 {
		t := a.Observed[i]
		available := policy.Figure(observed[t.Signal].Available, t.Definition().Format)
		message += fmt.Sprintf(": %s %s, below %s", t.Signal, &available, t.Value)
	}
	return policy.Word(c) + "Observed", message
}
