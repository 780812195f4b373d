// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime/debug"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app"
)

// garbagePercent is the default of GOGC. Nearly all of the heap is hosts that stay, of which Go's
// own default, 100, adds as much again in garbage. docs/performance.md has what this costs.
const garbagePercent = 25

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	// The first SIGTERM cancels the context, a second one ends the process.
	ctx := genericapiserver.SetupSignalContext()
	if err := cli.RunNoErrOutput(app.NewCommand(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "metal3-apiserver:", err)
		os.Exit(1)
	}
}
