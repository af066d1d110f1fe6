package schemafuzz

import (
	"encoding/json"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// integer prefers the bounds.
func (g *Generator) integer(schema apiextensionsv1.JSONSchemaProps) int64 {
	minimum, maximum := int64(math.MinInt32), int64(math.MaxInt32)
	if schema.Format == "int64" {
		minimum, maximum = math.MinInt64, math.MaxInt64
	}
	if schema.Minimum != nil {
		minimum = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		maximum = int64(*schema.Maximum)
	}
	near := max(minimum, 0)
	switch g.rand.IntN(5) {
	case 0:
		return minimum
	case 1:
		return maximum
	default:
		return min(near+int64(g.rand.IntN(5)), maximum)
	}
}

// intOrString generates a quantity if the pattern is that of a quantity, and otherwise a port or a percentage.
func (g *Generator) intOrString(schema apiextensionsv1.JSONSchemaProps) any {
	if strings.Contains(schema.Pattern, "[KMGTPE]i") {
		return pick[any](g.rand, "1", "100m", "1Gi", "1000m", "0.5", "1e3", "0", "-1", "1500Mi", "9223372036854775807", "1n", int64(1), int64(0),
			int64(-5))
	}
	return pick[any](g.rand, int64(0), int64(1), int64(80), int64(-1), int64(70000), "http", "80", "25%", "", "a_b")
}

// oddStrings are unusual strings for fields that accept any string.
var oddStrings = []string{
	"", " ", "a", "a", "a1", "web", "x-y", "UPPER", "a b", "-", "0", "true", "null", "../../etc/passwd", "/", "/a/b", "$(NAME)", "{{.}}",
	"a\nb", "ünïcode", "a=b",
	"example.com/x", "localhost:1", "10.0.0.1", strings.Repeat("a", 64), strings.Repeat("b.", 120) + "b", strings.Repeat("c", 1000),
}

func (g *Generator) stringValue(schema apiextensionsv1.JSONSchemaProps) string {
	minLength, maxLength := 0, 100
	if schema.MinLength != nil {
		minLength = int(*schema.MinLength)
	}
	if schema.MaxLength != nil {
		maxLength = int(*schema.MaxLength)
	}
	switch {
	case schema.Format == "date-time":
		return pick(g.rand, "2020-01-01T00:00:00Z", "2099-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
	case schema.Pattern != "":
		return g.stringMatching(schema.Pattern, minLength, maxLength)
	}
	for {
		if made := pick(g.rand, oddStrings...); len([]rune(made)) >= minLength && (schema.MaxLength == nil || len([]rune(made)) <= maxLength) {
			return made
		}
	}
}

// anyJSON generates any JSON up to a depth.
func (g *Generator) anyJSON(depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch g.rand.IntN(kinds) {
	case 0:
		return pick(g.rand, oddStrings...)
	case 1:
		return pick[any](g.rand, int64(0), int64(-1), int64(math.MaxInt64), 0.5, 1e300)
	case 2:
		return g.rand.IntN(2) == 0
	case 3:
		return nil
	case 4:
		return []any{g.anyJSON(depth - 1), g.anyJSON(depth - 1)}
	}
	return map[string]any{"x": g.anyJSON(depth - 1), pick(g.rand, oddStrings...): g.anyJSON(depth - 1)}
}

// decoded returns the value of JSON from a schema, with the types of unstructured objects.
func decoded(from apiextensionsv1.JSON) any {
	var value any
	if err := json.Unmarshal(from.Raw, &value); err != nil {
		panic(err) // the API server has read the same
	}
	if number, isNumber := value.(float64); isNumber && number == math.Trunc(number) {
		return int64(number)
	}
	return value
}
