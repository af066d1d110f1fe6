package link

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// newHello returns a Hello with lists of these lengths.
func newHello(running, results, features int) *linkv1.Hello {
	hello := &linkv1.Hello{Features: make([]string, features)}
	for range running {
		hello.Running = append(hello.Running, &linkv1.Attempt{})
	}
	for range results {
		hello.Unacknowledged = append(hello.Unacknowledged, &linkv1.Result{})
	}
	return hello
}

func encode(t *testing.T, message proto.Message) []byte {
	t.Helper()
	encoded, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func unmarshal(frame []byte) (*linkv1.AgentMessage, error) {
	into := &linkv1.AgentMessage{}
	return into, newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(frame)}, into)
}

func TestListsOfHelloAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		hello  *linkv1.Hello
		passes bool
	}{
		"as much as an agent may have": {newHello(maxRunning, maxResults, maxFeatures), true},
		"too many attempts":            {newHello(maxRunning+1, 0, 0), false},
		"too many results":             {newHello(0, maxResults+1, 0), false},
		"too many features":            {newHello(0, 0, maxFeatures+1), false},
	} {
		message := &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: c.hello}}
		got, err := unmarshal(encode(t, message))
		if (err == nil) != c.passes || c.passes && !proto.Equal(got, message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Repeated fields are merged, and unknown fields are decoded to be thrown away.
func TestPartsOfHelloAreCountedTogether(t *testing.T) {
	half := encode(t, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: newHello(maxRunning/2+1, 0, 0)}})
	if _, err := unmarshal(append(bytes.Clone(half), half...)); err == nil {
		t.Error("two halves of a Hello that is too long are decoded")
	}
	beat := encode(t, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{}}})
	if _, err := unmarshal(bytes.Repeat(beat, maxFields+1)); err == nil {
		t.Error("a message of many kinds is decoded")
	}
}

func TestFramesThatAreTooLongAreNotDecoded(t *testing.T) {
	for list, entry := range map[string][]byte{"attempts": {0x3a, 0}, "results": {0x42, 0}, "features": {0x12, 0}} {
		frame := protowire.AppendBytes(protowire.AppendTag(nil, helloField, protowire.BytesType), bytes.Repeat(entry, 1<<19-8))
		allocations := testing.AllocsPerRun(1, func() {
			if _, err := unmarshal(frame); err == nil {
				t.Errorf("%s: decoded", list)
			}
		})
		if allocations > 100 {
			t.Errorf("%s: %v allocations", list, allocations)
		}
	}
}
