// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type suite struct{ testbed.Suite }

var s suite

func TestMain(m *testing.M) {
	if os.Getenv("TIME") == "" {
		fmt.Println("robustness: skipped because TIME is not set; see make robustness")
		return
	}
	s.Parallel = 1
	s.ControllersLater = true // nobody needs them
	s.Main(m, "robustness", func(context.Context) error { return nil })
}
