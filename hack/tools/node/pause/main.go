// SPDX-License-Identifier: Apache-2.0

// Command pause is the first process of each pod of test/cluster: it keeps the pod's namespaces, and does nothing.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
