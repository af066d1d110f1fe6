package hostile

import (
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A generator makes random messages of whatever the protocol can encode, fields that are added later included.
type generator struct {
	*rand.Rand
	known knowledge
	self  *intruderPod
}

// script is a Hello that is true or random, and then random messages.
func (g generator) script(count int) script {
	return func(yield func(proto.Message) bool) {
		first := helloMessage(g.self.Hello())
		if g.IntN(2) == 0 {
			itself := first.GetHello()
			hello := g.message("hello")
			hello.GetHello().Protocol = itself.GetProtocol()
			hello.GetHello().Namespace, hello.GetHello().Swarm, hello.GetHello().Agent = itself.GetNamespace(), itself.GetSwarm(), itself.GetAgent()
			first = hello
		}
		if !yield(first) {
			return
		}
		kinds := first.ProtoReflect().Descriptor().Fields()
		for range count {
			if !yield(g.message(kinds.Get(g.IntN(kinds.Len())).Name())) {
				return
			}
		}
	}
}

// message makes a random message of a kind.
func (g generator) message(kind protoreflect.Name) *linkv1.AgentMessage {
	made := &linkv1.AgentMessage{}
	field := made.ProtoReflect().Descriptor().Fields().ByName(kind)
	g.fill(made.ProtoReflect().Mutable(field).Message())
	return made
}

// fill sets most fields of a message to random values.
func (g generator) fill(message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	for n := range fields.Len() {
		field := fields.Get(n)
		switch {
		case g.IntN(4) == 0:
		case field.IsList():
			list := message.Mutable(field).List()
			for range []int{0, 1, 3, 40}[g.IntN(4)] {
				list.Append(g.value(field, list.NewElement))
			}
		default:
			message.Set(field, g.value(field, func() protoreflect.Value { return message.NewField(field) }))
		}
	}
}

// value makes a random value of a field.
func (g generator) value(field protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	number := pick(g.Rand, g.known.numbers())
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(g.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(g.IntN(12) - 2))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(number)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(pick(g.Rand, g.known.texts()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(pick(g.Rand, g.known.texts())))
	}
	result := empty()
	if victim := g.victim(); field.Message().Name() == "Attempt" && victim != nil {
		return protoreflect.ValueOfMessage(victim.ProtoReflect())
	}
	g.fill(result.Message())
	return result
}

// victim is an attempt of a task of others, its epoch true or not; nil one time in three.
func (g generator) victim() *linkv1.Attempt {
	if len(g.known.victims) == 0 || g.IntN(3) == 0 {
		return nil
	}
	victim := proto.CloneOf(pick(g.Rand, g.known.victims))
	if g.IntN(2) == 0 {
		victim.Epoch = pick(g.Rand, g.known.numbers())
	}
	return victim
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
