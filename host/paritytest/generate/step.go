package generate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
)

func (m *maker) step(i int) replay.Step {
	s := replay.Step{AdvanceSeconds: pick(m.dice, 10, 10, 10, 10, 10, 1, 0.5, 20, 30, 60, 300, 0)}
	m.use.now = m.use.now.Add(time.Duration(s.AdvanceSeconds * float64(time.Second)))
	if i > 0 {
		m.change(&s)
	}
	m.node.move(pick(m.dice, 10, 30, 60))
	if i == 0 || !m.in(6) {
		s.Summary = m.summary(m.node)
	}
	if m.in(3) {
		s.SummaryError = "the source does not answer"
	}
	if m.in(3) {
		s.DiskInfoError = "no such filesystem"
	}
	if m.in(3) {
		s.ContainerFsInfoError = "no split filesystem"
	}
	if m.in(70) {
		s.Reclaim = m.reclaim()
	}
	m.kills(&s)
	for n := range pick(m.dice, 0, 0, 1, 2, 4) {
		s.Admit = append(s.Admit, m.pod.applicant(fmt.Sprintf("admit-%d-%d", i, n)))
	}
	return s
}

// change has pods go, come and get other resources.
func (m *maker) change(s *replay.Step) {
	m.pods = slices.DeleteFunc(m.pods, func(p *v1.Pod) bool {
		gone := m.in(5)
		if gone {
			s.RemovePods = append(s.RemovePods, string(p.UID))
		}
		return gone
	})
	for i, p := range m.pods {
		if m.in(2) {
			m.pods[i] = m.pod.resized(p)
			s.UpdatePods = append(s.UpdatePods, m.pods[i])
		}
	}
	for m.in(15) {
		p := m.pod.next()
		m.pods = append(m.pods, p)
		s.AddPods = append(s.AddPods, p)
	}
}

func (m *maker) reclaim() *replay.Reclaim {
	r := &replay.Reclaim{}
	if m.in(12) {
		r.ContainerGCError = "container gc failed"
	}
	if m.in(12) {
		r.ImageGCError = "image gc failed"
	}
	if m.in(80) {
		r.SummaryAfter = m.summary(m.node.released())
	}
	if m.in(5) {
		r.SummaryAfterError = "the source does not answer any more"
	}
	return r
}

func (m *maker) kills(s *replay.Step) {
	if m.in(6) && len(m.pods) > 0 {
		s.KillErrors = map[string]string{string(pick(m.dice, m.pods...).UID): "container does not stop"}
	}
	if m.in(5) {
		s.KillErrors = map[string]string{"*": "nothing stops"}
	}
	if m.in(25) {
		s.CleanupSeconds = new(pick(m.dice, 0, 0.5, 1, 2.5, 29, 30, 31))
	}
}

func (m *maker) summary(n *node) json.RawMessage {
	b, err := json.Marshal(statsapi.Summary{Node: n.stats(m.use.now), Pods: m.use.podStats(m.pods)})
	if err != nil {
		panic(err) // figures of our own always have a text
	}
	return b
}
