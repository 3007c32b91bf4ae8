package fakecri

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// EachList returns a Change that replaces the items of each list of a reply with those that f
// returns: some of them, none, or some twice.
func EachList(f func(items []proto.Message) []proto.Message) func(reply proto.Message) proto.Message {
	return func(reply proto.Message) proto.Message {
		r := reply.ProtoReflect()
		r.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if !field.IsList() || field.Message() == nil {
				return true
			}
			var items []proto.Message
			for i := range v.List().Len() {
				items = append(items, v.List().Get(i).Message().Interface())
			}
			changed := r.NewField(field)
			for _, item := range f(items) {
				changed.List().Append(protoreflect.ValueOfMessage(item.ProtoReflect()))
			}
			r.Set(field, changed)
			return true
		})
		return reply
	}
}
