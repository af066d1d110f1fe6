package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A tree is the input of the walls: parsed Go files and the go.mod files, by path from the root.
type tree struct {
	files   []file
	modules map[string]string
}

// A file is one Go file.
type file struct {
	path      string // from the root, with slashes
	folder    string
	lines     int
	test      bool // a _test.go file: it may do what a program may not
	generated bool // generated, so its shape does not matter
	syntax    *ast.File
	positions *token.FileSet
}

func readTree(repository fs.FS) (tree, error) {
	t := tree{modules: map[string]string{}}
	err := walkFiles(repository, func(name string) error {
		switch {
		case path.Base(name) == "go.mod":
			content, err := fs.ReadFile(repository, name)
			t.modules[name] = string(content)
			return err
		case path.Ext(name) == ".go":
			parsed, err := parseFile(repository, name)
			t.files = append(t.files, parsed)
			return err
		}
		return nil
	})
	if err != nil {
		return tree{}, fmt.Errorf("read repository: %w", err)
	}
	return t, nil
}

// walkFiles visits all files of the repository that are not ignored.
func walkFiles(repository fs.FS, visit func(name string) error) error {
	return fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isIgnored(name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return visit(name)
	})
}

// isIgnored are the folders the go command ignores too.
func isIgnored(folder string) bool {
	name := path.Base(folder)
	if folder == "." {
		return false
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		name == "testdata" || folder == "bin"
}

func parseFile(repository fs.FS, name string) (file, error) {
	content, err := fs.ReadFile(repository, name)
	if err != nil {
		return file{}, err
	}
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, fmt.Errorf("parse Go file: %w", err)
	}
	return file{
		path:      name,
		folder:    path.Dir(name),
		lines:     bytes.Count(content, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
		syntax:    syntax,
		positions: positions,
	}, nil
}

// productionFiles returns the files to which walls about behavior apply: not tests, and not what only tests use.
func (t tree) productionFiles() []file {
	var files []file
	for _, f := range t.files {
		if !f.test && !f.isUnder("internal/testkit") && !f.isUnder("test") {
			files = append(files, f)
		}
	}
	return files
}

// isUnder reports whether the file is in one of the folders or below.
func (f file) isUnder(folders ...string) bool {
	for _, folder := range folders {
		if isWithin(f.folder, folder) {
			return true
		}
	}
	return false
}

func isWithin(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func (f file) imports() map[string]*ast.ImportSpec {
	imports := map[string]*ast.ImportSpec{}
	for _, spec := range f.syntax.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			imports[name] = spec
		}
	}
	return imports
}

func (f file) violation(wall int, at ast.Node, format string, arguments ...any) Violation {
	line := f.positions.Position(at.Pos()).Line
	return Violation{Rule: wall, Location: fmt.Sprintf("%s:%d", f.path, line), Message: fmt.Sprintf(format, arguments...)}
}
