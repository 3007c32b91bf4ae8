package kubeapi

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/podsource/pruned"
)

const (
	// maxPodBytes bounds a pod of a list, like client-go that of a watch. etcd stores 1.5 MiB unless it
	// is configured.
	maxPodBytes = 16 << 20
	// maxHeaderBytes bounds what a list has beside its pods.
	maxHeaderBytes = 64 << 10
	protobufMagic  = "k8s\x00"
	// The fields of runtime.Unknown, which is around each object, and of v1.PodList.
	fieldTypeMeta, fieldRaw   = 1, 2
	fieldListMeta, fieldItems = 1, 2
)

var kindPod = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// errFormat reports an answer that cannot be bounded.
var errFormat = fmt.Errorf("answer about pods is not %s, as asked for", runtime.ContentTypeProtobuf)

// A bounded factory decodes pods within bounds (package pruned), and other objects as usual.
type bounded struct {
	serializer.WithoutConversionCodecFactory
	wanted *atomic.Pointer[pods.Wanted]
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (b bounded) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(b.WithoutConversionCodecFactory.SupportedMediaTypes())
	for i := range all {
		all[i].Serializer = podSerializer{all[i].Serializer, b.wanted}
	}
	return all
}

type podSerializer struct {
	runtime.Serializer
	wanted *atomic.Pointer[pods.Wanted]
}

// Decode implements runtime.Decoder. It decodes a pod in protobuf, and no list of pods.
func (s podSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var object runtime.Unknown
	message, isProtobuf := bytes.CutPrefix(data, []byte(protobufMagic))
	if isProtobuf {
		if err := object.Unmarshal(message); err != nil {
			return nil, nil, err
		}
	} else {
		of, err := json.DefaultMetaFactory.Interpret(data)
		if err != nil {
			return nil, nil, err
		}
		object.Kind = of.Kind
	}
	pod, ofPod := into.(*v1.Pod)
	switch isPod := object.Kind == kindPod.Kind; {
	case object.Kind == kindPod.Kind+"List", isPod && !isProtobuf, object.Kind == "" && ofPod:
		return nil, nil, errFormat
	case !isPod:
		return s.Serializer.Decode(data, defaults, into)
	case !ofPod:
		pod = &v1.Pod{}
	}
	_, err := pruned.Unmarshal(s.wanted.Load(), pod, object.Raw, nil)
	return pod, &kindPod, err
}

// readPods reads a v1.PodList in protobuf and decodes its pods one by one. It calls tooLarge for a pod
// of more than maxPodBytes, which is left out.
func readPods(body io.Reader, wanted *pods.Wanted, tooLarge func(bytes uint64)) (*v1.PodList, error) {
	r := fieldReader{bufio.NewReaderSize(body, maxHeaderBytes)}
	magic := make([]byte, len(protobufMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != protobufMagic {
		return nil, cmp.Or(err, errFormat)
	}
	list, kind, complete := &v1.PodList{}, runtime.TypeMeta{}, false
	err := r.each(func(number protowire.Number, size uint64) error {
		if number == fieldTypeMeta {
			data, err := r.bytes(size, maxHeaderBytes, nil)
			if err != nil {
				return err
			}
			return kind.Unmarshal(data)
		}
		if number != fieldRaw {
			return r.skip(size)
		}
		if kind.Kind != kindPod.Kind+"List" {
			return fmt.Errorf("answer is a %s, want a %sList", strconv.Quote(kind.Kind), kindPod.Kind)
		}
		content := &io.LimitedReader{R: r, N: int64(min(size, math.MaxInt64))}
		err := fieldReader{bufio.NewReader(content)}.list(list, wanted, tooLarge)
		complete = err == nil && content.N == 0
		return err
	})
	if err == nil && !complete {
		err = io.ErrUnexpectedEOF
	}
	return list, err
}

// A fieldReader reads the fields of a message, of which the content has a length.
type fieldReader struct{ *bufio.Reader }

// list reads the fields of a v1.PodList.
func (r fieldReader) list(list *v1.PodList, wanted *pods.Wanted, tooLarge func(uint64)) error {
	var raw, scratch []byte
	return r.each(func(number protowire.Number, size uint64) error {
		switch {
		case number == fieldListMeta:
			data, err := r.bytes(size, maxHeaderBytes, nil)
			if err != nil {
				return err
			}
			return list.ListMeta.Unmarshal(data)
		case number == fieldItems && size <= maxPodBytes:
			var err error
			if raw, err = r.bytes(size, maxPodBytes, raw); err != nil {
				return err
			}
			list.Items = append(list.Items, v1.Pod{})
			scratch, err = pruned.Unmarshal(wanted, &list.Items[len(list.Items)-1], raw, scratch)
			return err
		case number == fieldItems:
			tooLarge(size)
		}
		return r.skip(size)
	})
}

// each calls do for each field with a length; it reads the content.
func (r fieldReader) each(do func(number protowire.Number, size uint64) error) error {
	for {
		tag, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		number, wire := protowire.DecodeTag(tag)
		if err == nil && (number < protowire.MinValidNumber || wire != protowire.BytesType) {
			err = fmt.Errorf("field %d has wire type %d, want a length", number, wire)
		}
		var size uint64
		if err == nil {
			size, err = binary.ReadUvarint(r)
		}
		if err == nil {
			err = do(number, size)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

// bytes reads the content of a field into buffer, or a larger one.
func (r fieldReader) bytes(size, most uint64, buffer []byte) ([]byte, error) {
	if size > most {
		return buffer, fmt.Errorf("field has %d bytes, want at most %d", size, most)
	}
	buffer = slices.Grow(buffer[:0], int(size))[:size]
	_, err := io.ReadFull(r, buffer)
	return buffer, err
}

func (r fieldReader) skip(size uint64) error {
	_, err := io.CopyN(io.Discard, r, int64(min(size, math.MaxInt64)))
	return err
}
