package arch

import "strings"

var engines = []string{"internal/assign", "internal/schedule", "internal/topology", "internal/spread"}

// impure is the part of the standard library that would let the outside world into an engine.
var impure = []string{
	"context", "crypto/rand", "hash/maphash", "log", "math/rand", "net", "os", "syscall",
}

// clock are the names in package time that read or wait for it. The types are welcome: `now` is an argument.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func enginesArePure(t tree) []Breach {
	var breaches []Breach
	for _, f := range t.programs() {
		for _, engine := range engines {
			if f.under(engine) {
				breaches = append(breaches, impureImports(f, engine)...)
				breaches = append(breaches, f.uses(1, "time", clock, "now is an argument of an engine")...)
			}
		}
	}
	return breaches
}

func impureImports(f file, engine string) []Breach {
	var breaches []Breach
	for name, spec := range f.imports() {
		switch {
		case within(name, Module+"/"+engine): // its own parts
		case !standard(name):
			breaches = append(breaches, f.breach(1, spec, "engine imports %s, not the standard library", name))
		case anyWithin(name, impure):
			breaches = append(breaches, f.breach(1, spec, "engine imports %s", name))
		}
	}
	return breaches
}

// standard goes by the rule that every other module's path begins with a domain.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

func anyWithin(name string, folders []string) bool {
	for _, folder := range folders {
		if within(name, folder) {
			return true
		}
	}
	return false
}

// pureAPI is all that manifest may import beside the standard library.
var pureAPI = append([]string{
	"k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils",
	Module + "/api", Module + "/internal/manifest",
}, prefixed(engines)...)

func prefixed(folders []string) []string {
	var paths []string
	for _, folder := range folders {
		paths = append(paths, Module+"/"+folder)
	}
	return paths
}

func manifestHasNoClient(t tree) []Breach {
	var breaches []Breach
	for _, f := range t.programs() {
		if !f.under("internal/manifest") {
			continue
		}
		for name, spec := range f.imports() {
			if standard(name) && anyWithin(name, impure) || !standard(name) && !anyWithin(name, pureAPI) {
				breaches = append(breaches, f.breach(2, spec, "manifest imports %s", name))
			}
		}
		breaches = append(breaches, f.uses(2, "time", clock, "manifest gives the same answer tomorrow")...)
	}
	return breaches
}

// forbiddenToControllers serve users and the API server; the engines are what they share with controllers.
var forbiddenToControllers = prefixed([]string{"internal/httpapi", "internal/cli", "internal/placement"})

func controllersStandAlone(t tree) []Breach {
	const controllers = "internal/controller"
	var breaches []Breach
	for _, f := range t.programs() {
		below, isController := strings.CutPrefix(f.folder, controllers+"/")
		if !isController {
			continue
		}
		noun, _, _ := strings.Cut(below, "/")
		for name, spec := range f.imports() {
			another := within(name, Module+"/"+controllers) && !within(name, Module+"/"+controllers+"/"+noun)
			if another || anyWithin(name, forbiddenToControllers) {
				breaches = append(breaches, f.breach(3, spec, "controller %s imports %s", noun, name))
			}
		}
	}
	return breaches
}

// nothingImportsDevcluster holds for tests as well: they run it as a program.
func nothingImportsDevcluster(t tree) []Breach {
	const forbidden = Module + "/devcluster"
	var breaches []Breach
	for _, f := range t.files {
		if f.under("devcluster") {
			continue
		}
		for name, spec := range f.imports() {
			if within(name, forbidden) {
				breaches = append(breaches, f.breach(5, spec, "imports %s, which is run as a program", name))
			}
		}
	}
	return breaches
}

// kubernetesStaysOutside keeps the 33 replacements that k8s.io/kubernetes needs out of the modules others import.
func kubernetesStaysOutside(t tree) []Breach {
	var breaches []Breach
	for name, content := range t.modules {
		if within(name, "devcluster") {
			continue
		}
		for line := range strings.Lines(content) {
			code, _, _ := strings.Cut(line, "//")
			for word := range strings.FieldsSeq(code) {
				if word == "k8s.io/kubernetes" || word == Module+"/devcluster" {
					breaches = append(breaches, Breach{Wall: 5, Where: name, What: "mentions module " + word})
				}
			}
		}
	}
	return breaches
}
