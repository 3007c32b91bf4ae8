package prune

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// table is about a descriptorpb.FileDescriptorProto: its name, package, dependencies and messages.
var table = Message{
	1: {MaxBytes: 8, Cut: true}, 2: {MaxBytes: 8}, 3: {Most: 2, Keep: func(name []byte) bool { return !bytes.HasPrefix(name, []byte("other")) }},
	4: {Message: Message{1: {}, 2: {Message: Message{1: {}, 3: {}}, Most: 2}}, Most: 3, Name: "messages"},
}

func sample() *descriptorpb.FileDescriptorProto {
	file := &descriptorpb.FileDescriptorProto{
		Name: new("much longer than that"), Package: new("also longer than that"), Syntax: new("unwanted"),
		Dependency: []string{"other", "a", "b", "c"},
	}
	for range 5 {
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{
			Name: new("m"), Field: []*descriptorpb.FieldDescriptorProto{{Name: new("f"), Number: new(int32(7)), JsonName: new("unwanted")}, {}, {}},
		})
	}
	return file
}

// What is copied was there, is decodable if all was, and is not pruned further.
func FuzzAppend(f *testing.F) {
	raw, err := proto.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
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
		if proto.Unmarshal(data, &descriptorpb.FileDescriptorProto{}) == nil {
			if err := proto.Unmarshal(out, &descriptorpb.FileDescriptorProto{}); err != nil {
				t.Errorf("%x becomes %x: %v", data, out, err)
			}
		}
		again, drops, err := Append([]byte("x"), table, out)
		if err != nil || !bytes.Equal(again, append([]byte("x"), out...)) || len(drops) > 0 {
			t.Errorf("%x becomes %x, and then %x, %v, %v", data, out, again, drops, err)
		}
		over := slices.Clone(data)
		if over, _, err := Append(over[:0], table, over); err != nil || !bytes.Equal(over, out) {
			t.Errorf("%x becomes %x in its own place, %v, want %x", data, over, err, out)
		}
	})
}

func TestEachFieldHasItsBound(t *testing.T) {
	raw, err := proto.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	out, drops, err := Append(nil, table, raw)
	if err != nil {
		t.Fatal(err)
	}
	want := &descriptorpb.FileDescriptorProto{Name: new("much lon"), Dependency: []string{"a", "b"}}
	for range 3 {
		want.MessageType = append(want.MessageType, &descriptorpb.DescriptorProto{
			Name: new("m"), Field: []*descriptorpb.FieldDescriptorProto{{Name: new("f"), Number: new(int32(7))}, {}},
		})
	}
	got := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(out, got); err != nil || !proto.Equal(want, got) {
		t.Errorf("%v is kept, %v, want %v", got, err, want)
	}
	if len(drops) != 1 || drops[0] != (Drop{"messages", 5, 3}) {
		t.Errorf("%v is dropped", drops)
	}
}
