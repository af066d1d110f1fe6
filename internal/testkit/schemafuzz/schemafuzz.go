// Package schemafuzz makes random values from the OpenAPI schema of a CustomResourceDefinition: values that the schema accepts, with a preference for
// its bounds. It does not evaluate CEL rules; a Rule can repair what they would refuse.
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

// A Rule replaces or repairs the value that was made for a path. It may change the value in place.
type Rule func(r *rand.Rand, made any) any

// Rules are found by path: the names of the fields, joined by dots, without indexes.
type Rules map[string]Rule

// A Generator makes values. Use one per seed.
type Generator struct {
	rand    *rand.Rand
	rules   Rules
	density float64 // the probability of an optional field
}

// New returns a generator that draws from r.
func New(r *rand.Rand, rules Rules) *Generator { return &Generator{rand: r, rules: rules} }

// densities are how many of the optional fields a value has: sparse values are accepted more often, dense ones reach more code.
var densities = []float64{0.05, 0.2, 0.2, 0.5, 0.9}

// Value makes a value for the schema. The path is where the rules begin to count.
func (g *Generator) Value(path string, schema apiextensionsv1.JSONSchemaProps) any {
	g.density = densities[g.rand.IntN(len(densities))]
	return g.value(path, schema)
}

func (g *Generator) value(path string, schema apiextensionsv1.JSONSchemaProps) any {
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
		return g.text(schema)
	}
	return g.anything(3)
}

func (g *Generator) object(path string, schema apiextensionsv1.JSONSchemaProps) map[string]any {
	made := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if slices.Contains(schema.Required, name) || g.rand.Float64() < g.density {
			made[name] = g.value(path+"."+name, schema.Properties[name])
		}
	}
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		for n := range g.rand.IntN(4) {
			made[fmt.Sprint("any-", n)] = g.anything(3)
		}
	}
	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		for range g.rand.IntN(3) {
			made[pick(g.rand, "cpu", "memory", "a", "example.com/b", "c_d", "UPPER")] = g.value(path+".*", *more.Schema)
		}
	}
	return made
}

// mostItems keeps lists with distant bounds short.
const mostItems = 40

// array makes a list of any length within the bounds, without two elements of the same key.
func (g *Generator) array(path string, schema apiextensionsv1.JSONSchemaProps) []any {
	least, most := 0, mostItems
	if schema.MinItems != nil {
		least = int(*schema.MinItems)
	}
	if schema.MaxItems != nil {
		most = min(int(*schema.MaxItems), mostItems)
	}
	length := min(least+g.rand.IntN(3), most)
	if g.rand.IntN(20) == 0 {
		length = most
	}
	made, seen := []any{}, map[string]bool{}
	for tries := 0; len(made) < length && tries < 3*length; tries++ {
		item := g.value(path, *schema.Items.Schema)
		if key := keyOf(item, schema); key == "" || !seen[key] {
			made = append(made, item)
			seen[key] = true
		}
	}
	return made
}

// keyOf returns the field that identifies the elements of a list, "" without one.
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
