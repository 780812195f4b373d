// SPDX-License-Identifier: Apache-2.0

// Command helm renders a chart as `helm template` does, with Helm's own engine:
//
//	helm CHART [VALUES.yaml]
//
// It has the parts of Helm that the test of the chart needs: the whole of it, with its clients of registries and clusters, takes
// minutes to compile.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return fmt.Errorf("usage: helm CHART [VALUES.yaml]")
	}
	chart, err := loader.Load(args[0])
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	values := map[string]any{}
	if len(args) == 2 {
		if values, err = common.ReadValuesFile(args[1]); err != nil {
			return err
		}
	}
	release := common.ReleaseOptions{Name: "release-name", Namespace: "default", IsInstall: true}
	toRender, err := util.ToRenderValues(chart, values, release, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, toRender)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		fmt.Printf("---\n# Source: %s\n%s\n", name, rendered[name])
	}
	return nil
}
