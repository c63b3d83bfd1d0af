// Roots writes a program that uses the whole public interface of this module: it calls every
// exported function of the packages named by the arguments, and makes a value of every exported
// type, so that deadcode takes what they need for used.
package main

import (
	"fmt"
	"go/types"
	"log"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}, os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		os.Exit(1)
	}
	imports := map[string]string{} // name by path
	qualify := func(p *types.Package) string {
		if imports[p.Path()] == "" {
			imports[p.Path()] = fmt.Sprintf("p%d", len(imports))
		}
		return imports[p.Path()]
	}
	var body strings.Builder
	for _, pkg := range pkgs {
		scope := pkg.Types.Scope()
		for _, name := range scope.Names() {
			if object := scope.Lookup(name); pkg.Name != "main" && object.Exported() {
				use(&body, qualify(pkg.Types)+"."+name, object, qualify)
			}
		}
	}
	fmt.Print("package main\n\n")
	for path, name := range imports {
		fmt.Printf("import %s %q\n", name, path)
	}
	fmt.Printf("\nfunc use(...any) {}\n\nfunc main() {\n%s}\n", body.String())
}

func use(body *strings.Builder, name string, object types.Object, qualify types.Qualifier) {
	switch object := object.(type) {
	case *types.Func:
		signature := object.Signature()
		if list := arguments(signature.TypeParams()); list != nil {
			name += "[" + strings.Repeat("int, ", len(list)) + "]"
			instance, err := types.Instantiate(nil, signature, list, false)
			if err != nil {
				log.Fatal(err)
			}
			signature = instance.(*types.Signature)
		}
		var values []string
		for i := range signature.Params().Len() {
			values = append(values, "*new("+types.TypeString(signature.Params().At(i).Type(), qualify)+")")
		}
		if signature.Variadic() {
			values[len(values)-1] += "..."
		}
		fmt.Fprintf(body, "\t%s(%s)\n", name, strings.Join(values, ", "))
	case *types.TypeName:
		if generic, ok := object.Type().(interface{ TypeParams() *types.TypeParamList }); ok {
			if list := arguments(generic.TypeParams()); list != nil {
				name += "[" + strings.Repeat("int, ", len(list)) + "]"
			}
		}
		if !types.IsInterface(object.Type()) {
			fmt.Fprintf(body, "\tuse(new(%s))\n", name)
		}
	}
}

// arguments are as many times int as there are parameters.
func arguments(list *types.TypeParamList) (types []types.Type) {
	for range list.Len() {
		types = append(types, integer)
	}
	return types
}

var integer = types.Typ[types.Int]
