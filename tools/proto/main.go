// Command proto generates Go code from the protobuf files that it is given, next to them. It stands in for protoc, which
// is no Go module: the parser and both generators are pinned by this module's go.sum, so that every developer gets the same
// bytes. Run it in a folder of this module, with the root of the repository and the files from there:
//
//	go -C tools run ./proto .. api/link/v1/link.proto api/link/v1/placement.proto
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// generators are the tools of this module that speak protoc's plugin protocol.
var generators = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: proto ROOT FILE.proto...")
		os.Exit(64)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, root string, names []string) error {
	request, err := requestFor(ctx, root, names)
	if err != nil {
		return err
	}
	for _, generator := range generators {
		files, err := ask(ctx, generator, request)
		if err != nil {
			return err
		}
		if err := write(root, files); err != nil {
			return err
		}
	}
	return nil
}

// requestFor compiles the files and puts them, after what they import, into the form that generators read.
func requestFor(ctx context.Context, root string, names []string) (*pluginpb.CodeGeneratorRequest, error) {
	resolver := protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}})
	compiler := protocompile.Compiler{Resolver: resolver, SourceInfoMode: protocompile.SourceInfoStandard}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("compile protobuf: %w", err)
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      new("paths=source_relative"),
		ProtoFile:      withImports(compiled),
	}, nil
}

// withImports lists every file once, imports first.
func withImports(compiled linker.Files) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(file protoreflect.FileDescriptor)
	visit = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for at := range file.Imports().Len() {
			visit(file.Imports().Get(at).FileDescriptor)
		}
		ordered = append(ordered, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range compiled {
		visit(file)
	}
	return ordered
}

func ask(ctx context.Context, generator string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request to %s: %w", generator, err)
	}
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", generator, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, fmt.Errorf("decode answer of %s: %w", generator, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("run %s: %s", generator, response.GetError())
	}
	return response.GetFile(), nil
}

func write(root string, files []*pluginpb.CodeGeneratorResponse_File) error {
	for _, file := range files {
		name := filepath.Join(root, filepath.FromSlash(file.GetName()))
		if err := os.WriteFile(name, []byte(file.GetContent()), 0o644); err != nil {
			return fmt.Errorf("write generated code: %w", err)
		}
	}
	return nil
}
