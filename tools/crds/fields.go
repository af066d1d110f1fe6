package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A kind is what the reference says about one CRD.
type kind struct {
	name, description string
	rules             []string
	fields            []field
}

// A field is one row of the reference.
type field struct {
	path, form, description string
	required                bool
}

// reference renders the fields of all kinds as one Markdown page.
func reference(kinds []kind) string {
	var page strings.Builder
	page.WriteString("# Fields of the kinds\n\nGenerated from the CRDs by `make generate`. Fields that must be set are in bold. Pod templates have the fields of Kubernetes.\n")
	for _, each := range kinds {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | form | meaning |\n|---|---|---|\n", each.name, each.description)
		for _, row := range each.fields {
			name := "`" + row.path + "`"
			if row.required {
				name = "**" + name + "**"
			}
			fmt.Fprintf(&page, "| %s | %s | %s |\n", name, row.form, row.description)
		}
		if len(each.rules) > 0 {
			page.WriteString("\nThe API server refuses, among others:\n\n")
			for _, rule := range each.rules {
				fmt.Fprintf(&page, "- %s\n", rule)
			}
		}
	}
	return page.String()
}

// kindOf returns what the reference says about a CRD.
func kindOf(crd map[string]any) kind {
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	roots := schemas(crd)
	root := roots[len(roots)-1]
	name, _ := names["kind"].(string)
	described := kind{name: name, description: firstParagraph(root)}
	for _, part := range []string{"spec", "status"} {
		if child := properties(root)[part]; child != nil {
			described.rules = append(described.rules, rulesOf(child)...)
			described.add(part, child)
		}
	}
	described.rules = append(rulesOf(root), described.rules...)
	slices.Sort(described.rules)
	described.rules = slices.Compact(described.rules)
	return described
}

// add appends the fields below a schema.
func (k *kind) add(path string, schema map[string]any) {
	for _, items := range elements(schema) {
		k.rules = append(k.rules, rulesOf(items)...)
		suffix := "[]"
		if schema["additionalProperties"] != nil {
			suffix = ".*"
		}
		k.add(path+suffix, items)
	}
	required, _ := schema["required"].([]any)
	children := properties(schema)
	for _, name := range slices.Sorted(maps.Keys(children)) {
		child := children[name]
		k.fields = append(k.fields, field{
			path: path + "." + name, form: form(child), description: firstParagraph(child), required: slices.Contains(required, any(name)),
		})
		k.rules = append(k.rules, rulesOf(child)...)
		if name != "template" && name != "conditions" {
			k.add(path+"."+name, child)
		}
	}
}

// rulesOf returns the messages of the validation rules of a schema.
func rulesOf(schema map[string]any) []string {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	var messages []string
	for _, rule := range rules {
		if message, ok := rule.(map[string]any)["message"].(string); ok {
			messages = append(messages, escape(message))
		}
	}
	return messages
}

// form describes the type of a field, its bounds and its default.
func form(schema map[string]any) string {
	text, _ := schema["type"].(string)
	isQuantity, _ := schema["x-kubernetes-int-or-string"].(bool)
	hasAnyForm, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
	switch {
	case isQuantity:
		text = "quantity"
	case hasAnyForm && text != "object":
		text = "any"
	case text == "array":
		text = "list"
	case schema["additionalProperties"] != nil:
		text = "map"
	}
	if values, ok := schema["enum"].([]any); ok {
		names := make([]string, len(values))
		for n, value := range values {
			names[n] = fmt.Sprintf("`%v`", value)
		}
		text = strings.Join(names, ", ")
	}
	text += between(schema, "minimum", "maximum", "")
	text += between(schema, "minLength", "maxLength", " characters")
	text += between(schema, "minItems", "maxItems", " items")
	text += between(schema, "minProperties", "maxProperties", " entries")
	if value, ok := schema["default"]; ok {
		text += fmt.Sprintf("; default `%v`", value)
	}
	return text
}

// between describes the bounds of a value.
func between(schema map[string]any, lowest, highest, unit string) string {
	least, most := schema[lowest], schema[highest]
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf(", %s to %s%s", number(least), number(most), unit)
	case most != nil:
		return fmt.Sprintf(", at most %s%s", number(most), unit)
	case least != nil:
		return fmt.Sprintf(", at least %s%s", number(least), unit)
	}
	return ""
}

// number prints a number of a schema, which may have been read as a floating-point number, without an exponent.
func number(value any) string {
	if float, ok := value.(float64); ok {
		return fmt.Sprintf("%.0f", float)
	}
	return fmt.Sprint(value)
}

// firstParagraph returns the beginning of a description as the text of a cell.
func firstParagraph(schema map[string]any) string {
	description, _ := schema["description"].(string)
	first, _, _ := strings.Cut(description, "\n\n")
	return escape(strings.Join(strings.Fields(first), " "))
}

func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}
