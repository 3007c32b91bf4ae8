// Package summary lets a plugin use the kubelet's stats summary (/stats/summary,
// k8s.io/kubelet/pkg/apis/stats/v1alpha1) instead of its own sources: it has a
// decoder, a client of the host's private socket, and the kubelet's mapping of
// summaries to observations and measurements.
//
// It does not talk to the kubelet: tokens and certificates stay in the host. It
// does not rank, and it knows no thresholds.
//
// On each Configure, make a Source for eviction.NodeFacts.SummarySocket, keep it in an sdk.Current
// and use it as Observer and Measurer; an empty socket means that the node has no summary.
//
// # Protocol
//
// The host serves HTTP/1.1 on a unix socket. It fetches the summary once for each
// pass and view and gives all plugins the same bytes or the same error:
//
//	GET /summary?pass=7&view=before          at the beginning of the pass
//	GET /summary?pass=7&view=after-reclaim   fetched again after node-level reclaim
//
// The answer is 200 with the kubelet's JSON, or 503 with the error as text if there is
// no summary for this pass and view. Any other status, or no answer at all, is a
// failure of the host, and the Source asks again. The host keeps the answers of a
// pass while calls of that pass may be in progress.
//
// Both answers have headers with the host's knowledge of the node's filesystems:
//
//	X-Evictd-Layout              shared, imagefs or containerfs: the layout in force
//	X-Evictd-Image-Fs-Error      why it is not known whether images have their own
//	X-Evictd-Container-Fs-Error  why it is not known whether writable layers do
//
// The layout is absent while the host does not know it. With a container-fs error
// it names the layout that is used meanwhile. Errors are one line of UTF-8.
package summary
