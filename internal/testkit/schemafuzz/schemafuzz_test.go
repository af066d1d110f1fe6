package schemafuzz

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func schemaOf(t *testing.T, text string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	schema := apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

const thingSchema = `
type: object
required: [name, kind]
properties:
  name: {type: string, minLength: 1, maxLength: 20, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$'}
  kind: {type: string, enum: [A, B]}
  size: {type: integer, format: int32, minimum: 3, maximum: 9}
  room: {x-kubernetes-int-or-string: true, pattern: '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'}
  note: {type: string, maxLength: 5}
  tags: {type: array, maxItems: 4, x-kubernetes-list-type: set, items: {type: string, pattern: '^[ab]$', maxLength: 1}}
  parts: {type: array, minItems: 1, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id], items: {type: object, required: [id], properties: {id: {type: integer, minimum: 0, maximum: 3}}}}
`

func TestValuesKeepTheBounds(t *testing.T) {
	schema, name := schemaOf(t, thingSchema), regexp.MustCompile(`^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$`)
	covered := map[string]bool{}
	for seed := range uint64(500) {
		value := New(newRand(seed), nil).Value("Thing", schema).(map[string]any)
		if !name.MatchString(value["name"].(string)) {
			t.Errorf("name %q", value["name"])
		}
		if value["kind"] != "A" && value["kind"] != "B" {
			t.Errorf("kind %v", value["kind"])
		}
		if size, exists := value["size"].(int64); exists {
			covered[fmt.Sprint("size ", size)] = true
			if size < 3 || size > 9 {
				t.Errorf("size %d", size)
			}
		}
		if note, exists := value["note"].(string); exists && len([]rune(note)) > 5 {
			t.Errorf("note %q", note)
		}
		covered[fmt.Sprint("name of ", len(value["name"].(string)))] = true
		expectUnique(t, value["tags"], func(item any) any { return item })
		expectUnique(t, value["parts"], func(item any) any { return item.(map[string]any)["id"] })
	}
	for _, bound := range []string{"size 3", "size 9", "name of 1", "name of 20"} {
		if !covered[bound] {
			t.Errorf("no value has %s", bound)
		}
	}
}

func expectUnique(t *testing.T, list any, key func(any) any) {
	t.Helper()
	seen := map[any]bool{}
	items, _ := list.([]any)
	for _, item := range items {
		if seen[key(item)] {
			t.Errorf("twice the same in %v", items)
		}
		seen[key(item)] = true
	}
}

func TestASeedGivesTheSameValues(t *testing.T) {
	schema := schemaOf(t, thingSchema)
	if one, two := New(newRand(7), nil).Value("", schema), New(newRand(7), nil).Value("", schema); !reflect.DeepEqual(one, two) {
		t.Errorf("%v and %v", one, two)
	}
	if one, two := New(newRand(7), nil).Value("", schema), New(newRand(8), nil).Value("", schema); reflect.DeepEqual(one, two) {
		t.Errorf("twice %v", one)
	}
}

func TestRulesReplaceValues(t *testing.T) {
	rules := Rules{
		"Thing.name": func(*rand.Rand, any) any { return "fixed" },
		"Thing":      func(_ *rand.Rand, made any) any { made.(map[string]any)["more"] = true; return made },
	}
	made := New(newRand(1), rules).Value("Thing", schemaOf(t, thingSchema)).(map[string]any)
	if more, _ := made["more"].(bool); made["name"] != "fixed" || !more {
		t.Errorf("got %v", made)
	}
}

func TestStringsMatchTheirPatterns(t *testing.T) {
	for _, pattern := range []string{
		`^\S(.*\S)?$`, `^/[^\s]*$`, `^sha256:[0-9a-f]{64}$`, `^https?://[^\s/]+/?$`, `^([A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?)?$`,
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
	} {
		whole, lengths := regexp.MustCompile(pattern), map[int]bool{}
		for seed := range uint64(50) {
			made := New(newRand(seed), nil).stringMatching(pattern, 1, 100)
			lengths[len(made)] = true
			if !whole.MatchString(made) {
				t.Errorf("%q does not match %s", made, pattern)
			}
		}
		if len(lengths) < 2 && !strings.Contains(pattern, "{64}") {
			t.Errorf("%s: all strings have the same length", pattern)
		}
	}
}
