package prune

import (
	"bytes"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var table = Message{
	1: {Message: Message{1: {MaxBytes: 8, Cut: true}, 3: {MaxBytes: 8}, 7: {}, 8: {}, 11: {Most: 2}}},
	2: {Message: Message{1: {Message: Message{1: {}, 2: {Message: Message{2: {}, 26: {Message: Message{}}}}}, Most: 3, Name: "volumes"}, 4: {}}},
	3: {Message: Message{1: {}, 2: {Most: 2, Keep: func(entry []byte) bool { return !bytes.Contains(entry, []byte("other")) }}}},
}

// What is copied was there, is decodable if all was, and is not pruned further.
func FuzzAppend(f *testing.F) {
	for _, pod := range []*v1.Pod{
		{},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b", "c": "d", "e": "f"}, CreationTimestamp: metav1.Unix(1, 2)}},
		{Spec: v1.PodSpec{Volumes: make([]v1.Volume, 5), TerminationGracePeriodSeconds: new(int64(3))}, Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: "other"}, {Type: "Ready"}}}},
	} {
		raw, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	f.Add([]byte{0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, data []byte) {
		out, drops, err := Append(nil, table, data)
		if err != nil {
			return
		}
		if len(out) > len(data) {
			t.Errorf("%d bytes become %d", len(data), len(out))
		}
		for _, d := range drops {
			if d.Had <= d.Kept {
				t.Errorf("%+v is no drop", d)
			}
		}
		if err := (&v1.Pod{}).Unmarshal(data); err == nil {
			if err := (&v1.Pod{}).Unmarshal(out); err != nil {
				t.Errorf("%x becomes %x: %v", data, out, err)
			}
		}
		again, drops, err := Append([]byte("x"), table, out)
		if err != nil || !bytes.Equal(again, append([]byte("x"), out...)) || len(drops) > 0 {
			t.Errorf("%x becomes %x, and then %x, %v, %v", data, out, again, drops, err)
		}
	})
}

func TestEachFieldHasItsBound(t *testing.T) {
	pod := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "much longer than that", Namespace: "also longer than that", Labels: map[string]string{"a": "", "b": "", "c": ""}},
		Spec:       v1.PodSpec{Volumes: make([]v1.Volume, 5), NodeName: "n", RestartPolicy: "Always"},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: "other"}, {Type: "1"}, {Type: "2"}, {Type: "3"}}},
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out, drops, err := Append(nil, table, raw)
	if err != nil {
		t.Fatal(err)
	}
	got := v1.Pod{}
	if err := got.Unmarshal(out); err != nil {
		t.Fatal(err)
	}
	if got.Name != "much lon" || got.Namespace != "" || len(got.Labels) != 2 || len(got.Spec.Volumes) != 3 || got.Spec.NodeName != "" || len(got.Status.Conditions) != 2 || got.Status.Conditions[0].Type != "1" {
		t.Errorf("%+v is kept", got)
	}
	if len(drops) != 1 || drops[0] != (Drop{"volumes", 5, 3}) {
		t.Errorf("%v is dropped", drops)
	}
}
