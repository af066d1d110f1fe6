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

// each visits every key of a section.
func each(section reflect.Value, path string, visit func(key string, value reflect.Value)) {
	for field, value := range section.Fields() {
		if isSection(field.Type) {
			each(value, path+keyOf(field)+".", visit)
			continue
		}
		visit(path+keyOf(field), value)
	}
}

// Keys lists every key, for help texts and for the test that each of them has an effect.
func Keys() []string { return slices.Sorted(maps.Keys(texts(Defaults()))) }

// texts returns the values of all keys, as written in the file.
func texts(config Config) map[string]string {
	all := map[string]string{}
	each(reflect.ValueOf(config), "", func(key string, value reflect.Value) {
		switch value := value.Interface().(type) {
		case metav1.Duration:
			all[key] = value.Duration.String()
		case metav1.LabelSelector:
			all[key] = strings.TrimPrefix(metav1.FormatLabelSelector(&value), "<none>")
		case intstr.IntOrString:
			all[key] = value.String()
		case resource.Quantity:
			all[key] = value.String()
		default:
			all[key] = fmt.Sprint(value)
		}
	})
	return all
}

// variable returns the name of the environment variable that overrides a key.
func variable(key string) string {
	name, former := strings.Builder{}, ' '
	for _, letter := range key {
		if unicode.IsUpper(letter) && !unicode.IsUpper(former) { // an abbreviation stays one word
			name.WriteRune('_')
		}
		name.WriteRune(letter)
		former = letter
	}
	return prefix + strings.ToUpper(strings.ReplaceAll(name.String(), ".", "_"))
}
