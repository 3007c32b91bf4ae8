package crisocket

import (
	"math"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/evictd/evictd/shared/prune"
)

const (
	// maxLabelBytes bounds a label or an annotation, maxImageBytes the name of an image, which must not be
	// lost: an image without a container is garbage.
	maxLabelBytes, maxImageBytes = 1 << 10, 64 << 10
	maxLabels                    = 16
)

// keys are the labels and annotations that the host and the plugins read. The authors of pods write the
// others.
var keys = map[string]bool{
	"io.kubernetes.pod.uid": true, "io.kubernetes.pod.namespace": true, "io.kubernetes.pod.name": true,
	"io.kubernetes.container.name": true, "io.kubernetes.pod.terminationGracePeriod": true,
	"kubernetes.io/config.source": true, "kubernetes.io/config.mirror": true,
}

// replies has the fields of the lists, by the messages of CRI.
var replies = func() map[protoreflect.FullName]prune.Message {
	leaf, image := prune.Field{}, prune.Field{MaxBytes: maxImageBytes}
	labels := prune.Field{Most: maxLabels, MaxBytes: maxLabelBytes, Keep: func(entry []byte) bool {
		number, kind, key, n := prune.Next(entry)
		return n > 0 && number == 1 && kind == protowire.BytesType && keys[string(key)]
	}}
	items := func(of prune.Message) prune.Message {
		return prune.Message{1: {Message: of, Most: math.MaxInt}}
	}
	return map[protoreflect.FullName]prune.Message{
		"runtime.v1.ListPodSandboxResponse": items(prune.Message{
			1: leaf, 2: {Message: prune.Message{1: leaf, 2: leaf, 3: leaf, 4: leaf}}, 3: leaf, 4: leaf, 5: labels, 6: labels, 7: leaf,
		}),
		"runtime.v1.ListContainersResponse": items(prune.Message{
			1: leaf, 2: leaf, 3: {Message: prune.Message{1: leaf, 2: leaf}}, 6: leaf, 7: leaf, 8: labels, 9: labels,
			4: {Message: prune.Message{1: image, 18: image, 19: image, 20: image}}, 5: image, 10: image,
		}),
	}
}()

// A pruning codec decodes lists without the labels and annotations of pods' authors.
type pruning struct{ encoding.CodecV2 }

var codec = pruning{encoding.GetCodecV2(proto.Name)}

// Unmarshal implements encoding.CodecV2.
func (c pruning) Unmarshal(data mem.BufferSlice, into any) error {
	message, is := into.(protoreflect.ProtoMessage)
	if !is {
		return c.CodecV2.Unmarshal(data, into)
	}
	table, is := replies[message.ProtoReflect().Descriptor().FullName()]
	if !is {
		return c.CodecV2.Unmarshal(data, into)
	}
	whole := data.Materialize()
	wanted, _, err := prune.Append(whole[:0], table, whole)
	if err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wanted)}, into)
}
