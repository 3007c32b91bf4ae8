// Package core has no code of its own: the packages below it decide an eviction. This is the manual
// of one pass, from the crossing of a threshold to the end of the kill.
//
// # Who does what
//
// One goroutine, that of loop.Loop.Run, owns all state between passes. It selects on wakes, timers,
// changes of the plugins, requests, finished actions and reports of kills, and handles one at a
// time. What may be slow (reclaim, measuring disks, killing, writing records) runs elsewhere, gets
// values, and sends a value back. Nothing outside of core is called but through interfaces of the
// package that calls: plugins through the Pin of the registry, pods.Source, victim.Killer,
// loop.Journal, loop.Records, loop.Metrics, loop.Recorder.
//
// # The crossing
//
// A plugin that watches a signal sends a wake on its stream (wake.Streams). The loop gives it to
// wake.Schedule, which joins the wakes of a condition and limits how soon the next pass comes. The
// timer, a reload and a change of the plugins make a full pass: it observes all signals that have a
// threshold. A wake makes a pass of its condition alone. A wake decides nothing: the pass does, by
// what it observes.
//
// # The pass
//
// loop.Loop.run makes a pass in these steps:
//
//	observe  observe.Observer.Look asks the plugin in charge of each signal, all plugins in
//	         parallel, then the next in line for what is still unknown, at last the host itself. A
//	         figure that cannot be read is unknown: nothing is concluded from it.
//	assess   policy.Assess takes the figures, the thresholds and the state of the last pass. It
//	         returns the new state, the conditions and the thresholds that are actionable: met for
//	         their grace period. Conditions are published and saved before a pod is killed.
//	resume   Kills that a former evictd left in the journal are judged again. While it is not known
//	         whether one of them is still needed, no other pod goes.
//	limits   In a full pass pods with limits of local storage are measured, in the background. Each
//	         pod over a limit is evicted.
//	act      policy.Choose takes the most urgent actionable threshold whose condition has no action
//	         under way. The pacer (loop/pacing.go) may make it wait for the relief of a victim:
//	         policy.Ledger holds what each victim is expected to free and what has come back.
//	reclaim  If plugins have steps for the signal, they run first, in the background. The node is
//	         observed after each group of steps. If all thresholds are satisfied, no pod goes.
//	choose   choose.Chooser.Choose lists the pods, has the candidates measured and ranked by
//	         plugins, and does either itself where they fail. Protected pods are no candidates.
//	evict    The first pod that is still a candidate becomes a victim.
//
// The result of a background action is applied between two passes (loop.Loop.concluded). It is
// checked again then: the threshold must still be met, and the pod must not have been a victim
// meanwhile. A pass that a caller requests (loop.Loop.Synchronize) does all of this within itself.
//
// # The kill
//
// A victim.Kill is the decision to end a pod, as the journal stores it. victim.Set.Start saves it,
// before anything is done to the pod: whatever happens to evictd afterwards, the next one finds it.
// Then come the log line "evicting pod", the event, and victim.Killer.Kill in a goroutine. That
// goroutine sends a report when the kill has returned, when the pod has finished, and when its
// volumes are gone, if the relief depends on them. victim.Set.Handle applies the reports in the
// loop. Kill bounds its own time by the grace period (victim.Timeout); if it fails, or the pod stays,
// the pod becomes an ordinary candidate again.
//
// A hard threshold that is met while a victim of a soft one is terminating shortens that victim's
// grace period. Nothing lengthens a grace period.
//
// # The end
//
// When the pod is gone its Kill leaves the journal, beside a kubelet once the API server has the
// eviction, too. The ledger waits for what the pod was expected to free, a minute at most. Only then, or when a kubelet would evict the next pod too, another pod may
// go for that signal. The loop tells loop.Records the conclusion of each pass and action
// (loop.Conclusion), from which the records of decisions are made.
//
// When Run's context ends no new decision is made. Kills under way get victim.EndOfKills; what is
// left stays in the journal.
package core
