package link

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	// helloField is the field number of Hello in AgentMessage.
	helloField = 1
	// maxFields is how many fields an AgentMessage may have. It has one, and possibly some of later versions.
	maxFields = 16
	// maxRunning is how many attempts an agent may run according to the API.
	maxRunning = 1000
	// maxResults is how many unacknowledged results an agent may have: with 128 of them it takes no more work, but attempts
	// that are still running may add to them. Agents name 128 in Hello. Versions without Complete name all of them.
	maxResults = 128 + maxRunning
	// maxFeatures leaves room for features of later versions.
	maxFeatures = 64
)

// maxListEntries are the limits of the lists in Hello, by field number.
var maxListEntries = map[protowire.Number]int{2: maxFeatures, 7: maxRunning, 8: maxResults}

// A boundedCodec refuses agent messages whose lists are too long. An empty entry has 2 bytes on the wire and more than 100 in
// memory, so a limit on the size of a frame is not enough.
type boundedCodec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return boundedCodec{encoding.GetCodecV2(proto.Name)} }

// A received message carries its size on the wire, including gRPC's prefix.
type receivedMessage struct {
	*linkv1.AgentMessage
	wireBytes int
}

// Unmarshal is called by gRPC for each message.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, target any) error {
	if message, isAgentMessage := target.(*receivedMessage); isAgentMessage {
		message.wireBytes, target = data.Len()+grpcPrefixBytes, message.AgentMessage
	}
	if _, isAgentMessage := target.(*linkv1.AgentMessage); !isAgentMessage {
		return c.CodecV2.Unmarshal(data, target)
	}
	frame := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer frame.Free()
	if err := checkLists(frame.ReadOnlyData()); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{frame}, target)
}

// checkLists reports which list of an encoded AgentMessage is too long. Hello may be split over several fields, which are merged.
func checkLists(message []byte) error {
	fields, entries := 0, map[protowire.Number]int{}
	count := func(number protowire.Number, _ []byte) error {
		limit, bounded := maxListEntries[number]
		if !bounded {
			return nil
		}
		if entries[number]++; entries[number] > limit {
			return fmt.Errorf("field %d of Hello has more than %d entries", number, limit)
		}
		return nil
	}
	return visitFields(message, func(number protowire.Number, value []byte) error {
		if fields++; fields > maxFields {
			return fmt.Errorf("a message has more than %d fields", maxFields)
		}
		if number != helloField {
			return nil
		}
		return visitFields(value, count)
	})
}

// visitFields visits the fields of an encoded message. The value is nil for fields that are neither messages nor strings.
func visitFields(message []byte, visit func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		message = message[tag:]
		length := protowire.ConsumeFieldValue(number, kind, message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message)
		}
		if err := visit(number, value); err != nil {
			return err
		}
		message = message[length:]
	}
	return nil
}
