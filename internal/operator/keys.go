package operator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// isSection reports whether a type is a part of the configuration and not a value: only parts are types of this package.
func isSection(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && kind.PkgPath() == reflect.TypeFor[Config]().PkgPath()
}

func keyOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// visitKeys visits every key of a section.
func visitKeys(section reflect.Value, path string, visit func(key string, value reflect.Value)) {
	for field, value := range section.Fields() {
		if isSection(field.Type) {
			visitKeys(value, path+keyOf(field)+".", visit)
			continue
		}
		visit(path+keyOf(field), value)
	}
}

// Keys lists every key, for help texts and for the test that each of them has an effect.
func Keys() []string { return slices.Sorted(maps.Keys(keyValues(Defaults()))) }

// keyValues returns the values of all keys, as written in the file.
func keyValues(config Config) map[string]string {
	values := map[string]string{}
	visitKeys(reflect.ValueOf(config), "", func(key string, value reflect.Value) {
		switch value := value.Interface().(type) {
		case metav1.Duration:
			values[key] = value.Duration.String()
		case metav1.LabelSelector:
			values[key] = strings.TrimPrefix(metav1.FormatLabelSelector(&value), "<none>")
		case intstr.IntOrString:
			values[key] = value.String()
		case resource.Quantity:
			values[key] = value.String()
		default:
			values[key] = fmt.Sprint(value)
		}
	})
	return values
}

// environmentVariable returns the name of the environment variable that overrides a key.
func environmentVariable(key string) string {
	name, previous := strings.Builder{}, ' '
	for _, letter := range key {
		if unicode.IsUpper(letter) && !unicode.IsUpper(previous) { // an abbreviation stays one word
			name.WriteRune('_')
		}
		name.WriteRune(letter)
		previous = letter
	}
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(name.String(), ".", "_"))
}
