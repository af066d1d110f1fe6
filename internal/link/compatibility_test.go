package link_test

import (
	"errors"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// frozenProtocol is the protocol as the first agents know it.
func frozenProtocol(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("testdata/protocol-1.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal(text, file); err != nil {
		t.Fatal(err)
	}
	described, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return described
}

// Every message, field and enum value of the frozen protocol still exists, with its number and type.
func TestProtocolOnlyGrows(t *testing.T) {
	now := linkv1.File_api_link_v1_link_proto
	old := frozenProtocol(t)
	for at := range old.Messages().Len() {
		usageBefore := old.Messages().Get(at)
		after := now.Messages().ByName(usageBefore.Name())
		if after == nil {
			t.Errorf("message %s is gone", usageBefore.Name())
			continue
		}
		assertFieldsKept(t, usageBefore, after)
	}
	outcomes := now.Enums().ByName("Outcome").Values()
	values := old.Enums().ByName("Outcome").Values()
	for at := range values.Len() {
		if kept := outcomes.ByNumber(values.Get(at).Number()); kept == nil || kept.Name() != values.Get(at).Name() {
			t.Errorf("%s is gone or means something else", values.Get(at).Name())
		}
	}
}

func assertFieldsKept(t *testing.T, usageBefore, after protoreflect.MessageDescriptor) {
	t.Helper()
	for at := range usageBefore.Fields().Len() {
		field := usageBefore.Fields().Get(at)
		kept := after.Fields().ByNumber(field.Number())
		if kept == nil || kept.Name() != field.Name() || kept.Kind() != field.Kind() || kept.Cardinality() != field.Cardinality() {
			t.Errorf("field %s is gone or has changed", field.FullName())
		}
	}
}

// An oldAgent uses the frozen descriptors alone.
type oldAgent struct {
	grpc.ClientStream
	sendType, receiveType protoreflect.MessageDescriptor
}

func (a oldAgent) send(t *testing.T, text string) {
	t.Helper()
	message := dynamicpb.NewMessage(a.sendType)
	if err := prototext.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	if err := a.SendMsg(message); err != nil {
		t.Fatal(err)
	}
}

// receive returns the kind of the next message, or "" if the agent does not know it, and one field of it.
func (a oldAgent) receive(t *testing.T, field protoreflect.Name) (kind string, value string) {
	t.Helper()
	message := dynamicpb.NewMessage(a.receiveType)
	if err := a.RecvMsg(message); err != nil {
		t.Fatal(err)
	}
	oneof := message.WhichOneof(a.receiveType.Oneofs().ByName("kind"))
	if oneof == nil {
		return "", ""
	}
	body := message.Get(oneof).Message()
	descriptor := body.Descriptor().Fields().ByName(field)
	if descriptor.Kind() == protoreflect.BytesKind {
		return string(oneof.Name()), string(body.Get(descriptor).Bytes())
	}
	return string(oneof.Name()), body.Get(descriptor).String()
}

// joinOld lets an old agent join and grant one credit.
func joinOld(t *testing.T, operator *linktest.Operator) oldAgent {
	t.Helper()
	old := oldAgent{ClientStream: openRawStream(t, operator), sendType: frozenProtocol(t).Messages().ByName("AgentMessage"),
		receiveType: frozenProtocol(t).Messages().ByName("OperatorMessage")}
	old.send(t, `hello { protocol: 1 namespace: "default" swarm: "research" agent: "research-coder-0" slots: 1 }`)
	if kind, protocol := old.receive(t, "protocol"); kind != "welcome" || protocol != "1" {
		t.Fatalf("first came %s, protocol %s", kind, protocol)
	}
	old.send(t, `credit { granted: 1 }`)
	operator.AwaitCredit(t, 1)
	return old
}

func TestOldAgentGetsNoUnknownMessages(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	old := joinOld(t, operator)
	// Messages that an old agent does not know are not sent or, where that is harmless, ignored by it.
	if err := operator.Send(coder, linktest.Peers("a")); !errors.Is(err, link.ErrUnsupported) {
		t.Errorf("peers: %v", err)
	}
	handBack := linktest.Cancel(linktest.Attempt("t", 1), 0)
	handBack.GetCancel().HandBack = true
	if err := operator.Send(coder, handBack); !errors.Is(err, link.ErrUnsupported) {
		t.Errorf("hand-back: %v", err)
	}
	if err := operator.Send(coder, linktest.Drain(0)); err != nil {
		t.Fatal(err)
	}
	if kind, _ := old.receive(t, ""); kind != "" {
		t.Errorf("the old agent understood %s", kind)
	}
}

func TestOldAgentWorksWithThisOperator(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	old := joinOld(t, operator)
	if err := operator.Send(coder, linktest.Assign(linktest.Attempt("t", 5), `{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	if kind, payload := old.receive(t, "payload"); kind != "assign" || payload != `{"x":1}` {
		t.Errorf("heard %s %s", kind, payload)
	}
	old.send(t, `heartbeat { sequence: 3 }`)
	if kind, sequence := old.receive(t, "sequence"); kind != "echo" || sequence != "3" {
		t.Errorf("heard %s %s", kind, sequence)
	}
	old.send(t, `result { attempt { task: "t" task_uid: "uid-of-t" attempt: 1 epoch: 5 } outcome: OUTCOME_SUCCEEDED value: "42" }`)
	if got := operator.AwaitResult(t, 1, 5); got.GetOutcome() != linkv1.Outcome_OUTCOME_SUCCEEDED || string(got.GetValue()) != "42" {
		t.Errorf("got %v", got)
	}
	if err := operator.Send(coder, linktest.Acknowledge(linktest.Attempt("t", 5))); err != nil {
		t.Fatal(err)
	}
	if kind, _ := old.receive(t, "attempt"); kind != "acknowledge" {
		t.Errorf("heard %s", kind)
	}
}

// An agent of a later version sends messages that this operator does not know.
func TestNewAgentWorksWithThisOperator(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c := connect(t, operator, coder.String())
	future := hello(coder)
	future.GetHello().Protocol = 99
	withUnknown(future.GetHello())
	c.send(t, future)
	if got := c.receive(t).GetWelcome().GetProtocol(); got != linkv1.Protocol {
		t.Errorf("protocol %d: want ours, which the agent knows, too", got)
	}
	dream := &linkv1.AgentMessage{}
	withUnknown(dream)
	c.send(t, dream)
	c.send(t, heartbeat(1))
	if c.receive(t).GetEcho() == nil {
		t.Error("no echo after an unknown message")
	}
	// Heartbeats are answered without waiting for what was received before.
	linktest.Eventually(t, "the unknown message is counted", func() bool {
		return operator.MetricSum(t, "swarm_link_dropped_total", "unknown_kind") == 1
	})
}

func withUnknown(message proto.Message) {
	field := protowire.AppendTag(nil, 999, protowire.BytesType)
	message.ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("something new")))
}

func openRawStream(t *testing.T, to *linktest.Operator) grpc.ClientStream {
	t.Helper()
	ctx, connection := dial(t, to)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+coder.String())
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, linkv1.Link_Connect_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}
