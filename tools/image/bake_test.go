package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
)

// A bakeTarget is what `docker buildx bake` would read out of one target block, its inheritance applied.
type bakeTarget struct {
	dockerfile string
	platforms  []string
	tags       []string
	args       map[string]string
}

type bakeFile struct {
	groups  map[string][]string
	targets map[string]bakeTarget
}

// parseBake understands the part of the language our file uses, and fails on anything else.
func parseBake(t *testing.T, file string) bakeFile {
	t.Helper()
	parsed, problems := hclparse.NewParser().ParseHCLFile(file)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	body := parsed.Body.(*hclsyntax.Body)
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{}}
	baked := bakeFile{groups: map[string][]string{}, targets: map[string]bakeTarget{}}
	for _, block := range body.Blocks {
		name := block.Labels[0]
		switch block.Type {
		case "variable":
			scope.Variables[name] = value(t, block.Body.Attributes["default"], scope)
		case "group":
			baked.groups[name] = stringsOf(t, block.Body.Attributes["targets"], scope)
		case "target":
			baked.targets[name] = parseTarget(t, block.Body, scope, baked.targets)
		default:
			t.Fatalf("unknown block %q", block.Type)
		}
	}
	return baked
}

func parseTarget(t *testing.T, body *hclsyntax.Body, scope *hcl.EvalContext, known map[string]bakeTarget) bakeTarget {
	t.Helper()
	result := bakeTarget{args: map[string]string{}}
	for _, parent := range stringsOf(t, body.Attributes["inherits"], scope) {
		result = known[parent]
		result.args = maps.Clone(result.args)
	}
	for name, attribute := range body.Attributes {
		switch name {
		case "inherits":
		case "dockerfile":
			result.dockerfile = value(t, attribute, scope).AsString()
		case "platforms":
			result.platforms = stringsOf(t, attribute, scope)
		case "tags":
			result.tags = stringsOf(t, attribute, scope)
		case "args":
			for key, argument := range value(t, attribute, scope).AsValueMap() {
				result.args[key] = argument.AsString()
			}
		default:
			t.Fatalf("unknown attribute %q", name)
		}
	}
	return result
}

func value(t *testing.T, attribute *hclsyntax.Attribute, scope *hcl.EvalContext) cty.Value {
	t.Helper()
	evaluated, problems := attribute.Expr.Value(scope)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return evaluated
}

func stringsOf(t *testing.T, attribute *hclsyntax.Attribute, scope *hcl.EvalContext) []string {
	t.Helper()
	if attribute == nil {
		return nil
	}
	var read []string
	for _, element := range value(t, attribute, scope).AsValueSlice() {
		var word string
		if err := gocty.FromCtyValue(element, &word); err != nil {
			t.Fatal(err)
		}
		read = append(read, word)
	}
	return read
}

func TestR18_BakeOffersTheSameServicesAndPlatforms(t *testing.T) {
	baked := parseBake(t, repository+"/docker-bake.hcl")
	if got := baked.groups["default"]; !slices.Equal(got, serviceNames()) {
		t.Errorf("bake makes %q, the builder %q", got, serviceNames())
	}
	if extra := len(baked.targets) - len(services); extra != 1 {
		t.Errorf("%d targets beside the services, want the shared one only", extra)
	}
	for _, service := range services {
		target, offered := baked.targets[service.Name]
		if !offered {
			t.Errorf("bake has no target %q", service.Name)
			continue
		}
		assertBaked(t, service, target)
	}
}

func assertBaked(t *testing.T, service Service, target bakeTarget) {
	t.Helper()
	if target.dockerfile != "Dockerfile" {
		t.Errorf("%s is made by %q", service.Name, target.dockerfile)
	}
	if !slices.Equal(target.platforms, service.Platforms) {
		t.Errorf("bake makes %s for %q, the builder for %q", service.Name, target.platforms, service.Platforms)
	}
	if want := []string{service.reference("dev")}; !slices.Equal(target.tags, want) {
		t.Errorf("bake calls %s %q, the builder %q", service.Name, target.tags, want)
	}
	want := map[string]string{
		"SERVICE": service.Name, "MODULE": service.Module, "PACKAGE": service.Package,
		"VERSION": "dev", "COMMIT": "unknown", "DATE": "1970-01-01T00:00:00Z",
	}
	if !maps.Equal(target.args, want) {
		t.Errorf("bake builds %s with %v, want %v", service.Name, target.args, want)
	}
}
