package arch

import "strings"

var engines = []string{"internal/pool/assign", "internal/swarm/schedule", "internal/swarm/topology", "internal/spread/split"}

// impurePackages lists the packages of the standard library that would make an engine depend on its environment.
var impurePackages = []string{
	"context", "crypto/rand", "hash/maphash", "log", "math/rand", "net", "os", "syscall",
}

// clockFunctions are the names in package time that read the clock or wait for it. The types are allowed: `now` is an argument.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func enginesArePure(t tree) []Violation {
	var violations []Violation
	for _, f := range t.productionFiles() {
		for _, engine := range engines {
			if f.isUnder(engine) {
				violations = append(violations, impureImports(f, engine)...)
				violations = append(violations, f.uses(1, "time", clockFunctions, "now is an argument of an engine")...)
			}
		}
	}
	return violations
}

func impureImports(f file, engine string) []Violation {
	var violations []Violation
	for name, spec := range f.imports() {
		switch {
		case isWithin(name, Module+"/"+engine): // its own packages
		case !isStandardLibrary(name):
			violations = append(violations, f.violation(1, spec, "engine imports %s, not the standard library", name))
		case anyWithin(name, impurePackages):
			violations = append(violations, f.violation(1, spec, "engine imports %s", name))
		}
	}
	return violations
}

// isStandardLibrary relies on the rule that the path of every other module begins with a domain.
func isStandardLibrary(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

func anyWithin(name string, folders []string) bool {
	for _, folder := range folders {
		if isWithin(name, folder) {
			return true
		}
	}
	return false
}

// apiPackages are all packages that manifest may import besides the standard library.
var apiPackages = append([]string{
	"k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils",
	Module + "/api", Module + "/internal/swarm/manifest",
}, withModulePrefix(engines)...)

func withModulePrefix(folders []string) []string {
	var paths []string
	for _, folder := range folders {
		paths = append(paths, Module+"/"+folder)
	}
	return paths
}

func manifestHasNoClient(t tree) []Violation {
	var violations []Violation
	for _, f := range t.productionFiles() {
		if !f.isUnder("internal/swarm/manifest") {
			continue
		}
		for name, spec := range f.imports() {
			if isStandardLibrary(name) && anyWithin(name, impurePackages) || !isStandardLibrary(name) && !anyWithin(name, apiPackages) {
				violations = append(violations, f.violation(2, spec, "manifest imports %s", name))
			}
		}
		violations = append(violations, f.uses(2, "time", clockFunctions, "manifest gives the same answer tomorrow")...)
	}
	return violations
}

// clientPackages read and write the cluster.
var clientPackages = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}

// snapshotsAndPlansHaveNoClient keeps decisions comparable: a snapshot and a plan are values.
func snapshotsAndPlansHaveNoClient(t tree) []Violation {
	var violations []Violation
	for _, f := range t.productionFiles() {
		if !f.isUnder("internal/spread/snapshot", "internal/spread/plan", "internal/pool/plan") {
			continue
		}
		for name, spec := range f.imports() {
			if anyWithin(name, clientPackages) {
				violations = append(violations, f.violation(8, spec, "imports %s", name))
			}
		}
	}
	return violations
}

// controllerForbiddenImports serve users and the API server; they share only the engines with controllers.
var controllerForbiddenImports = withModulePrefix([]string{"internal/httpapi", "internal/cli", "internal/webhook",
	"internal/spread/allocator"})

func controllersAreIndependent(t tree) []Violation {
	const controllers = "internal/controller"
	var violations []Violation
	for _, f := range t.productionFiles() {
		below, isController := strings.CutPrefix(f.folder, controllers+"/")
		if !isController {
			continue
		}
		noun, _, _ := strings.Cut(below, "/")
		for name, spec := range f.imports() {
			another := isWithin(name, Module+"/"+controllers) && !isWithin(name, Module+"/"+controllers+"/"+noun)
			if another || anyWithin(name, controllerForbiddenImports) {
				violations = append(violations, f.violation(3, spec, "controller %s imports %s", noun, name))
			}
		}
	}
	return violations
}

// nothingImportsDevcluster holds for tests as well: they run it as a program.
func nothingImportsDevcluster(t tree) []Violation {
	const forbidden = Module + "/devcluster"
	var violations []Violation
	for _, f := range t.files {
		if f.isUnder("devcluster") {
			continue
		}
		for name, spec := range f.imports() {
			if isWithin(name, forbidden) {
				violations = append(violations, f.violation(5, spec, "imports %s, which is run as a program", name))
			}
		}
	}
	return violations
}

// kubernetesIsNotRequired keeps the 33 replacements that k8s.io/kubernetes needs out of modules that others import.
func kubernetesIsNotRequired(t tree) []Violation {
	var violations []Violation
	for name, content := range t.modules {
		if isWithin(name, "devcluster") {
			continue
		}
		for line := range strings.Lines(content) {
			code, _, _ := strings.Cut(line, "//")
			for word := range strings.FieldsSeq(code) {
				if word == "k8s.io/kubernetes" || word == Module+"/devcluster" {
					violations = append(violations, Violation{Rule: 5, Location: name, Message: "mentions module " + word})
				}
			}
		}
	}
	return violations
}
