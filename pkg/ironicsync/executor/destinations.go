// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// checkURLs returns why what is named in the arguments of a clean's steps may not be fetched, or nil.
func checkURLs(ctx context.Context, allowed destination.Policy, clean *settings.Clean) error {
	for _, update := range clean.FirmwareUpdates {
		if err := allowed.CheckURL(ctx, update.URL); err != nil {
			return &blocked{fmt.Sprintf("HostFirmwareComponents, update of %s: %s", update.Component, err)}
		}
	}
	if !clean.IsRequested {
		return nil
	}
	for _, step := range clean.Steps {
		for _, text := range textsIn(step.Args) {
			if err := allowed.CheckURL(ctx, text); err != nil {
				return &blocked{fmt.Sprintf("arguments of the clean step %s.%s: %s", step.Interface, step.Step, err)}
			}
		}
	}
	return nil
}

// textsIn returns all texts in a value that was decoded from JSON.
func textsIn(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			texts = append(texts, textsIn(item)...)
		}
	case map[string]any:
		for key, item := range v {
			texts = append(append(texts, key), textsIn(item)...)
		}
	}
	return texts
}
