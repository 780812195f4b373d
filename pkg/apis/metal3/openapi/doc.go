// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of everything that the server serves: the
// generated definitions of the metal3.io group, and those of the three core/v1 types that the
// group refers to. The latter are not generated, because the generator only handles whole
// packages, and core/v1 is four times as large as everything else together.
package openapi
