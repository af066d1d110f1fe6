// Package schemafuzz generates random values from the OpenAPI schema of a CustomResourceDefinition: values that the schema accepts, with a
// preference for its bounds. It does not evaluate CEL rules; a Rule can repair values that they would refuse.
//
// The same seed and schema always give the same values.
package schemafuzz

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A Rule replaces or repairs the value that was generated for a path. It may change the value in place.
type Rule func(r *rand.Rand, made any) any

// Rules holds rules by path: the names of the fields, joined by dots, without indexes.
type Rules map[string]Rule

// A Generator generates values. Use one per seed.
type Generator struct {
	rand    *rand.Rand
	rules   Rules
	density float64 // the probability of an optional field
}

// New returns a generator that draws from r.
func New(r *rand.Rand, rules Rules) *Generator { return &Generator{rand: r, rules: rules} }

// densities are the shares of optional fields that a value has: sparse values are accepted more often, dense ones reach more code.
var densities = []float64{0.05, 0.2, 0.2, 0.5, 0.9}

// Value generates a value for the schema. The path is the one at which rules are looked up first.
func (g *Generator) Value(path string, schema apiextensionsv1.JSONSchemaProps) any {
	g.density = densities[g.rand.IntN(len(densities))]
	return g.generate(path, schema)
}

func (g *Generator) generate(path string, schema apiextensionsv1.JSONSchemaProps) any {
	made := g.fromSchema(path, schema)
	if rule := g.rules[path]; rule != nil {
		return rule(g.rand, made)
	}
	return made
}

func (g *Generator) fromSchema(path string, schema apiextensionsv1.JSONSchemaProps) any {
	switch {
	case schema.XIntOrString:
		return g.intOrString(schema)
	case len(schema.Enum) > 0:
		return decoded(schema.Enum[g.rand.IntN(len(schema.Enum))])
	}
	switch schema.Type {
	case "object":
		return g.object(path, schema)
	case "array":
		return g.array(path, schema)
	case "integer":
		return g.integer(schema)
	case "number":
		return pick(g.rand, 0, 1, -1, 0.5, 1e300)
	case "boolean":
		return g.rand.IntN(2) == 0
	case "string":
		return g.stringValue(schema)
	}
	return g.anyJSON(3)
}

func (g *Generator) object(path string, schema apiextensionsv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if slices.Contains(schema.Required, name) || g.rand.Float64() < g.density {
			object[name] = g.generate(path+"."+name, schema.Properties[name])
		}
	}
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		for n := range g.rand.IntN(4) {
			object[fmt.Sprint("any-", n)] = g.anyJSON(3)
		}
	}
	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		for range g.rand.IntN(3) {
			object[pick(g.rand, "cpu", "memory", "a", "example.com/b", "c_d", "UPPER")] = g.generate(path+".*", *more.Schema)
		}
	}
	return object
}

// maxItems keeps lists with distant bounds short.
const maxItems = 40

// array generates a list of any length within the bounds, without duplicate keys.
func (g *Generator) array(path string, schema apiextensionsv1.JSONSchemaProps) []any {
	minItems, maxLength := 0, maxItems
	if schema.MinItems != nil {
		minItems = int(*schema.MinItems)
	}
	if schema.MaxItems != nil {
		maxLength = min(int(*schema.MaxItems), maxItems)
	}
	length := min(minItems+g.rand.IntN(3), maxLength)
	if g.rand.IntN(20) == 0 {
		length = maxLength
	}
	items, seenKeys := []any{}, map[string]bool{}
	for tries := 0; len(items) < length && tries < 3*length; tries++ {
		item := g.generate(path, *schema.Items.Schema)
		if key := keyOf(item, schema); key == "" || !seenKeys[key] {
			items = append(items, item)
			seenKeys[key] = true
		}
	}
	return items
}

// keyOf returns the key that identifies an element of a list, "" if the list has no keys.
func keyOf(item any, list apiextensionsv1.JSONSchemaProps) string {
	if list.XListType == nil {
		return ""
	}
	fields, isObject := item.(map[string]any)
	switch {
	case *list.XListType == "set":
		return fmt.Sprintf("%#v", item)
	case *list.XListType != "map" || !isObject:
		return ""
	}
	var key strings.Builder
	for _, name := range list.XListMapKeys {
		value, exists := fields[name]
		if !exists && list.Items.Schema.Properties[name].Default != nil {
			value = decoded(*list.Items.Schema.Properties[name].Default)
		}
		fmt.Fprintf(&key, "%#v,", value)
	}
	return key.String()
}

// pick draws one of the values.
func pick[V any](r *rand.Rand, values ...V) V { return values[r.IntN(len(values))] }
