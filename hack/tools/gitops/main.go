// SPDX-License-Identifier: Apache-2.0

// Command gitops says what Argo CD and Flux conclude from objects, with their own engines:
//
//	gitops ARGOCD-CM.yaml KUSTOMIZATION.yaml <OBJECTS.json
//
// ARGOCD-CM.yaml is a ConfigMap with health checks of Argo CD, and KUSTOMIZATION.yaml a Kustomization of Flux with
// healthCheckExprs. For each of the objects, which follow each other in JSON, it prints a line of JSON: the health and the message of
// the script in Lua, which are empty if there is none for the kind; the status of kstatus; and that of the expressions, if there are any.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gitops:", err)
		os.Exit(1)
	}
}

// verdict is what is printed of an object.
type verdict struct {
	Health  string `json:"health"`
	Message string `json:"message"`
	Kstatus string `json:"kstatus"`
	Flux    string `json:"flux"`
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: gitops ARGOCD-CM.yaml KUSTOMIZATION.yaml <OBJECTS.json")
	}
	var config struct {
		Data map[string]string `json:"data"`
	}
	if err := read(args[0], &config); err != nil {
		return err
	}
	var kustomization struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := read(args[1], &kustomization); err != nil {
		return err
	}
	evaluators := map[schema.GroupKind]*cel.StatusEvaluator{}
	for _, check := range kustomization.Spec.HealthCheckExprs {
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			return fmt.Errorf("%s: %w", check.Kind, err)
		}
		evaluators[schema.FromAPIVersionAndKind(check.APIVersion, check.Kind).GroupKind()] = evaluator
	}
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw); err != nil { // which makes whole numbers int64, as clients of Kubernetes do
			return err
		}
		said, err := judge(obj, config.Data, evaluators)
		if err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		if err := encoder.Encode(said); err != nil {
			return err
		}
	}
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(content, into)
}

func judge(obj *unstructured.Unstructured, config map[string]string, evaluators map[schema.GroupKind]*cel.StatusEvaluator) (said verdict, err error) {
	computed, err := status.Compute(obj)
	if err != nil {
		return said, fmt.Errorf("kstatus: %w", err)
	}
	said.Kstatus = computed.Status.String()
	kind := obj.GroupVersionKind().GroupKind()
	if evaluator := evaluators[kind]; evaluator != nil {
		evaluated, err := evaluator.Evaluate(context.Background(), obj)
		if err != nil {
			return said, err
		}
		said.Flux = evaluated.Status.String()
	}
	if script := config["resource.customizations.health."+kind.Group+"_"+kind.Kind]; script != "" {
		if said.Health, said.Message, err = health(obj, script); err != nil {
			return said, fmt.Errorf("lua: %w", err)
		}
	}
	return said, nil
}

// health runs a health check as Argo CD does: with the basic functions and those for tables, but not those for strings, and for a
// second at most. Argo CD calls no script for an object that is being deleted.
func health(obj *unstructured.Unstructured, script string) (health, message string, err error) {
	if obj.GetDeletionTimestamp() != nil {
		return "Progressing", "Pending deletion", nil
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return "", "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", value(l, obj.Object))
	if err := l.DoString(script); err != nil {
		return "", "", err
	}
	returned, isTable := l.Get(-1).(*lua.LTable)
	if !isTable {
		return "", "", fmt.Errorf("the script returns a %s, and must return a table", l.Get(-1).Type())
	}
	health = lua.LVAsString(returned.RawGetString("status"))
	if !strings.Contains(" Unknown Progressing Suspended Healthy Degraded Missing ", " "+health+" ") {
		return "", "", fmt.Errorf("Argo CD has no health %q", health)
	}
	return health, lua.LVAsString(returned.RawGetString("message")), nil
}

// value is a value of JSON in Lua. As in Argo CD, a field that is null is one that is missing.
func value(l *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case bool:
		return lua.LBool(of)
	case string:
		return lua.LString(of)
	case int64:
		return lua.LNumber(of)
	case float64:
		return lua.LNumber(of)
	case []any:
		table := l.NewTable()
		for _, item := range of {
			table.Append(value(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range of {
			table.RawSetString(key, value(l, item))
		}
		return table
	}
	return lua.LNil
}
